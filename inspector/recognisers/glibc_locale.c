// SPDX-License-Identifier: MIT
// glibc's locales. What a category has is proven by its file: this begins with the category's magic number, and says where each item is.
#include "recognisers/glibc.h"

#include <string.h>

enum {
    WORD = AS_GLIBC_WORD,
    CATEGORIES = AS_GLIBC_CATEGORIES,
    LC_CTYPE_NUMBER = 0,
    LC_COLLATE_NUMBER = 3,
    CTYPE_MAGIC = 0x20090720, // LIMAGIC of locale/localeinfo.h
    COLLATE_MAGIC = 0x20051014,
    OTHER_MAGIC = 0x20031115,
    DATA_WORDS = 8,     // of struct __locale_data, at most, before its values
    MOST_ITEMS = 512,   // of a category
    MOST_COMPUTED = 64, // bytes behind the values: what later releases have computed of them
    TYPES_WORDS = 3,    // of struct __locale_struct between the data and the names
    LOCALE_WORDS = CATEGORIES + TYPES_WORDS + CATEGORIES,
    LOCALE_CHUNK = 240, // bytes of its chunk, or more: the names may be behind it
    MOST_CHUNK = 4096,
    L10N_WORDS = 4, // of struct loaded_l10nfile before its successors
    MOST_FILES = 4096,
    ARCHIVE_WORDS = 2 + CATEGORIES,
};

static int category_of(uint32_t magic)
{
    for (int i = 0; i < CATEGORIES; i++)
        if (i != AS_GLIBC_LC_ALL && magic == (uint32_t)((i == LC_CTYPE_NUMBER     ? CTYPE_MAGIC
                                                         : i == LC_COLLATE_NUMBER ? COLLATE_MAGIC
                                                                                  : OTHER_MAGIC) ^
                                                        i))
            return i;
    return -1;
}

// The values behind `header` words: each is a number of the file, or leads to where it says.
static bool has_values(struct as_glibc *g, uint64_t pointer, unsigned header, uint64_t file, uint64_t items,
                       const uint32_t *places)
{
    uint64_t values[MOST_ITEMS];
    uint64_t found = 0;
    uint64_t bytes = (header + items) * WORD, more = 0;
    while (more <= MOST_COMPUTED && !as_proof_is_made_for(&g->proof, pointer, bytes + more))
        more += AS_ALIGNMENT;
    if (more > MOST_COMPUTED || !as_glibc_read(g, pointer + (uint64_t)header * WORD, values, items * WORD))
        return false;
    for (uint64_t i = 0; i < items; i++) {
        bool leads = values[i] == file + places[i];
        uint32_t number; // of which the other half of the value is left over
        if (!leads && (places[i] % sizeof number != 0 || !as_glibc_read(g, file + places[i], &number, sizeof number) ||
                       (uint32_t)values[i] != number))
            return false;
        found += leads;
    }
    return found > 0;
}

// In glibc 2.31 there is one word more before the values: a function that frees what was computed.
static bool read_data(struct as_glibc *g, uint64_t pointer, int *category)
{
    uint64_t w[DATA_WORDS];
    uint32_t file[2], places[MOST_ITEMS];
    if (!as_glibc_read(g, pointer, w, sizeof w) || !as_glibc_read(g, w[1], file, sizeof file))
        return false;
    *category = category_of(file[0]);
    uint64_t items = file[1];
    if (*category < 0 || items == 0 || items > MOST_ITEMS || w[2] < sizeof file + items * sizeof *places ||
        !as_glibc_read(g, w[1] + sizeof file, places, items * sizeof *places))
        return false;
    return ((uint32_t)w[6] == items && has_values(g, pointer, DATA_WORDS - 1, w[1], items, places)) ||
           ((uint32_t)w[7] == items && has_values(g, pointer, DATA_WORDS, w[1], items, places));
}

// struct gconv_fcts of LC_CTYPE: steps to wide characters, and back.
static bool match_functions(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[4];
    if (!as_proof_is_made_for(&g->proof, pointer, sizeof w) || !as_glibc_read(g, pointer, w, sizeof w) ||
        !as_glibc_steps(g, w[0], w[1]) || !as_glibc_steps(g, w[2], w[3]))
        return false;
    as_glibc_give(g, as_proof_node(&g->proof, pointer), AS_SHAPE_GCONV_FCTS);
    return true;
}

// What LC_CTYPE has computed: these functions, or (in later releases, behind its values) a structure that begins with a pointer to them.
static void match_ctype(struct as_glibc *g, uint64_t pointer)
{
    uint64_t first;
    if (!match_functions(g, pointer) && as_glibc_read(g, pointer, &first, sizeof first))
        match_functions(g, first);
}

static void name_data(struct as_glibc *g, uint64_t pointer, uint32_t node, int category)
{
    uint64_t w[DATA_WORDS];
    as_glibc_give(g, node, AS_SHAPE_LOCALE_DATA);
    if (!as_glibc_read(g, pointer, w, sizeof w))
        return;
    as_glibc_give_text(g, w[0], AS_SHAPE_LOCALE_NAME, true);
    for (int i = 4; category == LC_CTYPE_NUMBER && i < 6; i++)
        match_ctype(g, w[i]);
}

// The category that struct __locale_data at an address is of; -1: there is none. It is named.
static int data_at(struct as_glibc *g, uint64_t pointer)
{
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (node == AS_NO_NODE)
        return -1;
    uint32_t known = as_number_map_get(&g->categories, (uint64_t)node + 1);
    if (known != 0)
        return (int)known - 2;
    int category = -1;
    bool is_data = read_data(g, pointer, &category);
    if (!as_number_map_put(&g->categories, (uint64_t)node + 1, is_data ? (uint32_t)category + 2 : 1, NULL))
        return -1;
    if (is_data)
        name_data(g, pointer, node, category);
    return is_data ? category : -1;
}

// struct __locale_struct: data for each category, which is a chunk's or a constant of libc's; three tables; a name for each.
static bool is_locale(struct as_glibc *g, uint64_t address, uint64_t w[LOCALE_WORDS])
{
    if (!as_glibc_read(g, address, w, LOCALE_WORDS * WORD))
        return false;
    bool any = false;
    for (int i = 0; i < CATEGORIES; i++) {
        bool ours = i != AS_GLIBC_LC_ALL && data_at(g, w[i]) == i;
        if (!ours && (i == AS_GLIBC_LC_ALL ? w[i] != 0 : !as_glibc_is_own(g, w[i])))
            return false;
        any = any || ours;
    }
    for (int i = 0; i < CATEGORIES; i++) {
        uint64_t name = w[CATEGORIES + TYPES_WORDS + i];
        if (i != AS_GLIBC_LC_ALL && as_glibc_text(g, name, NULL) == AS_UNKNOWN)
            return false;
    }
    return any;
}

static void name_names(struct as_glibc *g, const uint64_t w[LOCALE_WORDS])
{
    for (int i = 0; i < CATEGORIES; i++)
        as_glibc_give_text(g, w[CATEGORIES + TYPES_WORDS + i], AS_SHAPE_LOCALE_NAME, true);
}

// A file of a category: its path, whether it was read, what was; the next, and others to try.
static bool is_file(struct as_glibc *g, uint64_t pointer, uint64_t w[L10N_WORDS])
{
    return as_proof_node(&g->proof, pointer) != AS_NO_NODE && as_glibc_read(g, pointer, w, L10N_WORDS * WORD) &&
           as_proof_node(&g->proof, w[0]) != AS_NO_NODE && (w[2] == 0 || data_at(g, w[2]) >= 0) &&
           as_glibc_text(g, w[0], NULL) != AS_UNKNOWN;
}

// The list of files, one of which has been read.
static bool match_files(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[L10N_WORDS];
    unsigned count = 0;
    bool any = false;
    for (uint64_t at = pointer; at != 0; at = w[3]) {
        if (++count > MOST_FILES || !is_file(g, at, w))
            return false;
        any = any || w[2] != 0;
    }
    for (uint64_t at = pointer; any && at != 0 && is_file(g, at, w); at = w[3]) {
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_LOCALE_FILE);
        as_glibc_give_text(g, w[0], AS_SHAPE_LOCALE_PATH, true);
    }
    return any;
}

// What has been found in locale-archive: the next, a name, data for each category.
static bool is_archived(struct as_glibc *g, uint64_t pointer, uint64_t w[ARCHIVE_WORDS])
{
    bool any = false;
    if (!as_proof_is_made_for(&g->proof, pointer, ARCHIVE_WORDS * WORD) ||
        !as_glibc_read(g, pointer, w, ARCHIVE_WORDS * WORD))
        return false;
    for (int i = 0; i < CATEGORIES; i++) {
        uint64_t data = w[2 + i];
        if (data != 0 && (i == AS_GLIBC_LC_ALL || data_at(g, data) != i))
            return false;
        any = any || data != 0;
    }
    return any && as_glibc_text(g, w[1], NULL) != AS_UNKNOWN;
}

static void match_archive(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[ARCHIVE_WORDS];
    unsigned count = 0;
    for (uint64_t at = pointer; at != 0; at = w[0])
        if (++count > MOST_FILES || !is_archived(g, at, w))
            return;
    for (uint64_t at = pointer; at != 0 && is_archived(g, at, w); at = w[0]) {
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_LOCALE_ARCHIVE);
        as_glibc_give_text(g, w[1], AS_SHAPE_LOCALE_NAME, true);
    }
}

void as_glibc_locale_match(struct as_glibc *g, size_t word, uint64_t pointer)
{
    uint64_t w[LOCALE_WORDS];
    int category = data_at(g, pointer);
    if (category >= 0) { // in the locale that setlocale() sets
        if (is_locale(g, g->words.items[word].address - (uint64_t)category * WORD, w))
            name_names(g, w);
    } else if (!match_files(g, pointer)) {
        match_archive(g, pointer);
    }
}

void as_glibc_locale_match_at(struct as_glibc *g, const struct as_used_chunk *chunk)
{
    uint64_t w[LOCALE_WORDS];
    bool any = false;
    if (g->categories.count == 0 || chunk->size < LOCALE_CHUNK || chunk->size > MOST_CHUNK)
        return;
    for (int i = 0; !any && i < CATEGORIES; i++) {
        uint32_t to = as_edge_link(g->edges, chunk->node, (uint32_t)i);
        any = to != AS_NO_NODE && as_number_map_get(&g->categories, (uint64_t)to + 1) > 1;
    }
    if (!any || !is_locale(g, chunk->address + AS_HEADER, w))
        return;
    as_glibc_give(g, chunk->node, AS_SHAPE_LOCALE);
    name_names(g, w);
}
