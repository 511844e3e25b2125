// SPDX-License-Identifier: MIT
#include "recognisers/glibc.h"

#include <ctype.h>
#include <string.h>

enum {
    WORD = AS_GLIBC_WORD,
    MOST_WORDS = 1 << 16,
    MOST_ENTRIES = 1 << 14, // of the environment; of a list
    MOST_VECTORS = 64,      // of an environment, one after another
    EXIT_FUNCTIONS = 32,
    EXIT_WORDS = 2 + EXIT_FUNCTIONS * 4,
    EXIT_FLAVORS = 5, // free, unused, on_exit, atexit, cxa_atexit
};
#define MOST_TRIES (UINT64_C(1) << 18)
#define MOST_CHUNK_TRIES (UINT64_C(1) << 15) // of chunks that the program holds

// struct exit_function_list: the next, how many functions, and each with a flavor. The first of all is a variable of libc's.
static bool is_exit_list(struct as_glibc *g, uint64_t pointer, uint64_t *next)
{
    uint64_t w[EXIT_WORDS];
    if (!as_proof_is_made_for(&g->proof, pointer, sizeof w) || !as_glibc_read(g, pointer, w, sizeof w) || w[1] == 0 ||
        w[1] > EXIT_FUNCTIONS || w[0] == 0)
        return false;
    bool any = false;
    for (uint64_t i = 0; i < w[1]; i++) {
        const uint64_t *f = w + 2 + i * 4;
        if (f[0] >= EXIT_FLAVORS)
            return false;
        any = any || (f[0] > 1 && f[1] != 0);
    }
    *next = w[0];
    return any;
}

static void match_exit(struct as_glibc *g, uint64_t pointer)
{
    uint64_t at = pointer, next;
    unsigned count = 0;
    while (!as_glibc_is_own(g, at)) {
        if (++count > MOST_ENTRIES || !is_exit_list(g, at, &next))
            return;
        at = next;
    }
    for (at = pointer; count > 0 && is_exit_list(g, at, &next); at = next, count--)
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_EXIT_LIST);
}

// NAME=VALUE. False: it is not.
static bool is_variable(struct as_glibc *g, uint64_t pointer)
{
    char text[AS_GLIBC_MOST_TEXT];
    uint64_t length = as_glibc_text(g, pointer, text);
    const char *sign = length != AS_UNKNOWN ? memchr(text, '=', length) : NULL;
    if (!sign || sign == text)
        return false;
    for (const char *c = text; c < sign; c++)
        if (*c == ' ')
            return false;
    return isalpha((unsigned char)text[0]) || text[0] == '_';
}

// The vector that setenv() makes, up to its zero. Returns how many variables there are; 0: it is none.
static unsigned count_variables(struct as_glibc *g, uint64_t pointer)
{
    uint64_t entry;
    uint32_t node = as_proof_node(&g->proof, pointer);
    for (unsigned count = 0; node != AS_NO_NODE && count < MOST_ENTRIES; count++) {
        uint64_t at = pointer + count * WORD;
        if (as_index_target(g->proof.patterns->index, at) != node || !as_glibc_read(g, at, &entry, sizeof entry))
            return 0;
        if (entry == 0)
            return count;
        if (!is_variable(g, entry))
            return 0;
    }
    return 0;
}

static bool name_environ(struct as_glibc *g, uint64_t pointer)
{
    unsigned count = count_variables(g, pointer);
    uint64_t entry;
    if (count == 0)
        return false;
    as_glibc_give(g, as_proof_node(&g->proof, pointer), AS_SHAPE_ENVIRON);
    for (unsigned i = 0; i < count; i++)
        if (as_glibc_read(g, pointer + i * WORD, &entry, sizeof entry))
            as_glibc_give_text(g, entry, AS_SHAPE_ENVIRON_TEXT, true);
    return true;
}

// From glibc 2.41 on, setenv() has a list of all its vectors (struct environ_array): the vector, its room, the one before.
static void match_environ(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[3], at = pointer;
    if (name_environ(g, pointer))
        return;
    for (unsigned count = 0; at != 0 && count < MOST_VECTORS; at = w[2], count++) {
        if (!as_proof_is_made_for(&g->proof, at, sizeof w) || !as_glibc_read(g, at, w, sizeof w) ||
            w[1] > MOST_ENTRIES || !as_proof_is_made_for(&g->proof, w[0], w[1] * WORD) || !name_environ(g, w[0]))
            return;
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_ENVIRON_ARRAY);
    }
}

// struct tzstring_l: the next, a length, and a text of that length.
static bool is_tzstring(struct as_glibc *g, uint64_t pointer, uint64_t *next)
{
    uint64_t w[2];
    if (as_proof_node(&g->proof, pointer) == AS_NO_NODE || !as_glibc_read(g, pointer, w, sizeof w) ||
        w[1] >= AS_GLIBC_MOST_TEXT || !as_proof_is_made_for(&g->proof, pointer, sizeof w + w[1] + 1) ||
        as_glibc_text(g, pointer + sizeof w, NULL) != w[1] || w[1] == 0)
        return false;
    *next = w[0];
    return true;
}

static void match_tzstrings(struct as_glibc *g, uint64_t pointer)
{
    uint64_t at = pointer, next;
    unsigned count = 0;
    for (; at != 0; at = next)
        if (++count > MOST_ENTRIES || !is_tzstring(g, at, &next))
            return;
    for (at = pointer; at != 0 && is_tzstring(g, at, &next); at = next)
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_TZSTRING);
}

static const struct as_module *find_libc(const struct as_modules *modules)
{
    for (size_t i = 0; i < modules->list.count; i++) {
        const char *name = as_module_name(modules, &modules->list.items[i]);
        if (strncmp(name, "libc.so.6", strlen("libc.so.6")) == 0 || strncmp(name, "libc-2.", strlen("libc-2.")) == 0)
            return &modules->list.items[i];
    }
    return NULL;
}

// The words of libc's variables lie together, by address.
static bool find_words(struct as_glibc *g, const struct as_roots *r, struct as_error *err)
{
    for (size_t i = 0; i < r->list.count && g->words.count < MOST_WORDS; i++) {
        const struct as_root_source *s = &r->sources.items[r->list.items[i].source];
        if (s->kind != AS_ROOT_GLOBAL || s->module == UINT32_MAX || &g->modules->list.items[s->module] != g->libc)
            continue;
        if (!as_vec_push(&g->words, err, r->list.items[i]))
            return false;
    }
    return true;
}

// Where a word leads that leads to the beginning of a chunk; 0: to none.
static uint64_t pointer_of(struct as_glibc *g, const struct as_root *word)
{
    uint64_t pointer;
    bool known = word->begins && as_glibc_read(g, word->address, &pointer, sizeof pointer) &&
                 as_proof_node(&g->proof, pointer) == word->node;
    return known ? pointer : 0;
}

static void match_words(struct as_glibc *g)
{
    for (size_t i = 0; i < g->words.count; i++) {
        uint64_t pointer = pointer_of(g, &g->words.items[i]);
        as_glibc_entries_match(g, i);
        if (pointer == 0)
            continue;
        as_glibc_modules_match(g, pointer);
        as_glibc_locale_match(g, i, pointer);
        as_glibc_iconv_match(g, pointer);
        match_exit(g, pointer);
        match_environ(g, pointer);
        match_tzstrings(g, pointer);
    }
    for (size_t i = 0; i < g->words.count; i++) {
        uint64_t pointer = pointer_of(g, &g->words.items[i]);
        if (pointer != 0)
            as_glibc_nss_match(g, pointer);
    }
}

// The sizes are those of a few structures.
static void match_chunks(struct as_glibc *g)
{
    g->tries = g->tries < MOST_CHUNK_TRIES ? g->tries : MOST_CHUNK_TRIES;
    for (struct as_used_cursor c = as_used_begin(g->proof.patterns->index); g->tries > 0 && as_used_next(&c);) {
        as_glibc_locale_match_at(g, &c.chunk);
        as_glibc_iconv_match_at(g, &c.chunk);
        as_glibc_regex_match_at(g, &c.chunk);
    }
}

bool as_glibc_find(const struct as_recogniser_input *in)
{
    struct as_glibc g = {.proof = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES},
                         .edges = in->edges,
                         .modules = in->modules,
                         .tries = MOST_TRIES};
    g.libc = find_libc(in->modules);
    if (!g.libc)
        return true;
    bool ok = find_words(&g, in->roots, in->err);
    if (ok) {
        match_words(&g);
        match_chunks(&g);
    }
    as_vec_free(&g.words);
    as_number_map_free(&g.categories);
    as_number_map_free(&g.steps);
    return ok;
}
