// SPDX-License-Identifier: MIT
// jemalloc by structure. Its variables have a radix tree with an element for each page at which one of its extents
// begins. In a build for addresses of 48 bits that is a root of 2^18 pointers to leaves, and a leaf of 2^18 words, each
// with the address of a descriptor, which has the extent's address and size. In a build for 57 bits (jemalloc takes the
// number from the processor that it is built on) there are three levels of 2^15 elements; as an address leaves no bits
// for the size class then, an element of a leaf is two words, the first of which is the address. (rtree.h:
// rtree_levels, RTREE_LEAF_COMPACT.) So a word's place in the tree says which address its descriptor must have: a
// pointer to anything else does not pass. The descriptors themselves, and the leaves, are in blocks of jemalloc's own,
// whose headers add up. The structures are those of rtree.h, extent_structs.h (edata.h from 5.3 on) and base_structs.h,
// as known of 5.0 to 5.3, tested on 5.3.
#include "runtimes/finder.h"

#include "base/align.h"
#include "runtimes/regions.h"
#include "runtimes/variable_words.h"

#include <inttypes.h>

enum {
    PAGE = 4096, // jemalloc's: another build divides addresses otherwise
    PAGE_BITS = 12,
    WORD_BITS = 3,
    ALIGNMENT = 64,  // of a leaf and of a descriptor; the bits below are flags
    BLOCK = 2 << 20, // bytes: jemalloc's own blocks are multiples of it, at multiples of it
    BLOCKS_BACK = 8, // multiples that a block may begin before what is in it
    MOST_BLOCKS = 4096,
    MOST_TABLES = 1024,   // of one level below a table: a leaf is for 1 GiB, or for 128 MiB
    CANDIDATES = 256,     // pointers of an object that are tried as tables
    TOGETHER = 32,        // of which so many are read in one go,
    BEGINNING = 8,        // so many words of each
    FREE_READS = 1 << 16, // at a descriptor or at 4 KiB, whatever the target's size; and at 4 KiB of variables
    MISMATCHES = 8,       // a thread may stand between two changes of the tree
};

// How addresses are divided: each level's table has 2^bits elements, of a word each; in a leaf of leaf_words.
struct tree_shape {
    unsigned levels, bits, leaf_words;
};
static const struct tree_shape shapes[] = {{2, 18, 1}, {3, 15, 2}};

struct extent_descriptor {
    uint64_t bits, address, size; // of size the lowest 12 bits are a number
};
struct own_block {
    uint64_t size, next;
    struct extent_descriptor rest; // what is still free at the block's end
};

struct jemalloc_search {
    const struct tree_shape *shape;
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    const struct as_variable_words *words;
    uint32_t runtime;
    size_t first_region; // in the store, of this runtime
    int64_t reads_left;  // that are left
    int candidates;
    bool ok;             // false: our memory ran out
    uint64_t start, end; // of the run of extents that goes on
    uint64_t extents, mismatches, bytes;
    AS_VEC(struct as_range) blocks;
};

static unsigned words_of(const struct jemalloc_search *s, unsigned level)
{
    return level + 1 == s->shape->levels ? s->shape->leaf_words : 1;
}

// Bytes of a table of a level (0: the root).
static uint64_t table_size(const struct jemalloc_search *s, unsigned level)
{
    return (uint64_t)words_of(s, level) << (s->shape->bits + WORD_BITS);
}

// The bits of an address below its index in a table of a level.
static unsigned shift_of(const struct jemalloc_search *s, unsigned level)
{
    return PAGE_BITS + (s->shape->levels - 1 - level) * s->shape->bits;
}

static uint64_t index_at(const struct jemalloc_search *s, unsigned level, uint64_t address)
{
    return address >> shift_of(s, level) & ((UINT64_C(1) << s->shape->bits) - 1);
}

static uint64_t descriptor_of(uint64_t element)
{
    return element << 16 >> 16 & ~(uint64_t)(ALIGNMENT - 1);
}

// Reads the descriptor that an element leads to. False: there is none.
static bool read_descriptor(struct jemalloc_search *s, uint64_t element, struct extent_descriptor *d)
{
    uint64_t at = descriptor_of(element);
    return at != 0 && --s->reads_left > 0 && as_is_runtime_range(s->target, at, sizeof *d, &s->reads_left) &&
           as_target_read(s->target, at, d, sizeof *d);
}

// --- jemalloc's own blocks --------------------------------------------------------------------------------------------

static bool is_known(const struct jemalloc_search *s, uint64_t address)
{
    for (size_t i = s->blocks.count; i-- > 0;)
        if (address >= s->blocks.items[i].start && address < s->blocks.items[i].end)
            return true;
    return false;
}

// Does a block begin here, whose free rest is at its end?
static bool read_block(struct jemalloc_search *s, uint64_t address, struct own_block *b)
{
    return --s->reads_left > 0 && as_is_runtime_range(s->target, address, sizeof *b, &s->reads_left) &&
           as_target_read(s->target, address, b, sizeof *b) && b->size > 0 && b->size % BLOCK == 0 &&
           b->size <= UINT64_MAX - address && b->rest.address > address && b->rest.address <= address + b->size &&
           b->rest.size == address + b->size - b->rest.address;
}

// Adds the block that holds `inside`, and those that it leads to.
static void add_block(struct jemalloc_search *s, uint64_t inside)
{
    struct own_block b;
    uint64_t at = as_align_down(inside, BLOCK);
    if (is_known(s, inside))
        return;
    for (int back = 0; back < BLOCKS_BACK && at != 0; back++, at -= BLOCK)
        if (read_block(s, at, &b) && inside < at + b.size)
            break;
    while (s->ok && s->blocks.count < MOST_BLOCKS && !is_known(s, at) && read_block(s, at, &b) &&
           as_align_down(at, BLOCK) == at) {
        s->ok = as_vec_push(&s->blocks, s->err, (struct as_range){at, at + b.size}) &&
                as_regions_add(s->target, s->store, s->runtime, at, at + b.size, &s->bytes, s->err);
        at = b.next;
    }
}

// --- Extents ----------------------------------------------------------------------------------------------------------

static void end_run(struct jemalloc_search *s)
{
    if (s->ok && s->start < s->end)
        s->ok = as_regions_add(s->target, s->store, s->runtime, s->start, s->end, &s->bytes, s->err);
    s->start = s->end;
}

// Takes an element of a leaf: the first of an extent, or another one of the extent before.
static void take_element(struct jemalloc_search *s, uint64_t page, uint64_t element)
{
    struct extent_descriptor d;
    if (page < s->end || descriptor_of(element) == 0)
        return;
    bool fits = read_descriptor(s, element, &d) && as_align_down(d.address, PAGE) == page && d.size >= PAGE &&
                d.size <= UINT64_C(1) << 47;
    if (!fits) {
        s->mismatches++;
        return;
    }
    s->extents++;
    if (page != s->end) {
        end_run(s);
        s->start = page;
    }
    s->end = page + as_align_down(d.size, PAGE);
    add_block(s, descriptor_of(element));
}

// What is done with the first word of each element of a table, where that is not 0; false ends it.
typedef bool visit_fn(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word);

struct table_visit {
    struct jemalloc_search *search;
    uint64_t table;
    unsigned stride; // words of an element
    visit_fn *visit;
    void *context;
};

static bool visit_word(void *context, uint64_t address, uint64_t word)
{
    struct table_visit *v = context;
    uint64_t index = (address - v->table) >> WORD_BITS;
    return index % v->stride != 0 || v->visit(v->search, v->context, index / v->stride, word);
}

static void visit_table(struct jemalloc_search *s, uint64_t table, unsigned level, visit_fn *visit, void *context)
{
    struct table_visit v = {s, table, words_of(s, level), visit, context};
    as_words_visit(s->target, &s->reads_left, table, table + table_size(s, level), visit_word, &v);
}

static bool visit_element(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word)
{
    const uint64_t *first = context;
    take_element(s, *first + (index << PAGE_BITS), word);
    return s->ok && s->reads_left > 0 && s->mismatches <= MISMATCHES;
}

struct table_list {
    struct {
        uint64_t index, address;
    } items[MOST_TABLES];
    size_t count;
    unsigned level; // of these tables
    bool fit;
};

static bool may_be_table(struct jemalloc_search *s, uint64_t word, unsigned level)
{
    return word != 0 && word % ALIGNMENT == 0 &&
           as_is_runtime_range(s->target, word, table_size(s, level), &s->reads_left);
}

static bool visit_pointer(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word)
{
    struct table_list *tables = context;
    tables->fit = tables->count < MOST_TABLES && may_be_table(s, word, tables->level);
    if (!tables->fit)
        return false;
    tables->items[tables->count].index = index;
    tables->items[tables->count++].address = word;
    return true;
}

// The tables of a level to which a table of the level above has pointers. Without any, it is no table.
static bool list_tables(struct jemalloc_search *s, uint64_t table, unsigned level, struct table_list *out)
{
    *out = (struct table_list){.level = level};
    visit_table(s, table, level - 1, visit_pointer, out);
    return out->fit;
}

// Adds what the leaves that `table` has pointers to have. `first`: the lowest address that it is for.
static bool add_leaves(struct jemalloc_search *s, uint64_t table, uint64_t first)
{
    struct table_list leaves;
    unsigned leaf = s->shape->levels - 1;
    if (!list_tables(s, table, leaf, &leaves))
        return false;
    for (size_t i = 0; i < leaves.count && s->ok; i++) {
        uint64_t page = first + (leaves.items[i].index << shift_of(s, leaf - 1));
        add_block(s, leaves.items[i].address);
        visit_table(s, leaves.items[i].address, leaf, visit_element, &page);
    }
    return true;
}

static bool is_in_region(const struct jemalloc_search *s, uint64_t address)
{
    for (size_t i = s->first_region; i < s->store->regions.count; i++)
        if (address - s->store->regions.items[i].address < s->store->regions.items[i].size)
            return true;
    return false;
}

// A block leads to the one before it. The newest may have nothing of the tree in it: it leads to a block that is known.
static void add_block_before(struct jemalloc_search *s)
{
    const struct as_target *t = s->target;
    AS_FOR_EACH_WHILE(s->ok, const struct as_mapping, m, &t->mappings) {
        if (!as_is_runtime_memory(m))
            continue;
        struct own_block b;
        for (uint64_t at = as_align_up(m->start, BLOCK); at < m->end && m->end - at >= sizeof b && s->ok; at += BLOCK)
            if (!is_in_region(s, at) && read_block(s, at, &b) && is_known(s, b.next))
                add_block(s, at);
    }
}

static void add_newest_blocks(struct jemalloc_search *s)
{
    size_t before;
    do {
        before = s->blocks.count;
        add_block_before(s);
    } while (s->blocks.count > before);
}

// Adds all that the tree at `root` has. False: it is none.
static bool add_tree(struct jemalloc_search *s, uint64_t root)
{
    struct table_list tables;
    tables.count = 0;
    bool fit = s->shape->levels == 2 ? add_leaves(s, root, 0) : list_tables(s, root, 1, &tables);
    for (size_t i = 0; s->shape->levels > 2 && fit && i < tables.count && s->ok; i++) {
        add_block(s, tables.items[i].address);
        fit = add_leaves(s, tables.items[i].address, tables.items[i].index << shift_of(s, 0));
    }
    end_run(s);
    if (fit)
        add_newest_blocks(s);
    return fit && s->ok && s->reads_left > 0 && s->extents > 0 && s->mismatches <= MISMATCHES;
}

// --- Where the tree is ------------------------------------------------------------------------------------------------

struct first_element {
    uint64_t index, word; // of a table: the first that is not 0
};

static bool visit_first(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word)
{
    (void)s;
    *(struct first_element *)context = (struct first_element){index, word};
    return false;
}

// The address of the first extent below a table that the root has a pointer to; 0: it is no such table.
static uint64_t first_extent(struct jemalloc_search *s, uint64_t table)
{
    struct first_element at[2] = {{0, 0}}; // of level 1, and 2
    struct extent_descriptor d;
    unsigned level = 1;
    for (;; level++) {
        visit_table(s, table, level, visit_first, &at[level - 1]);
        if (level == s->shape->levels - 1)
            break;
        table = at[level - 1].word;
        if (!may_be_table(s, table, level + 1))
            return 0;
    }
    if (!read_descriptor(s, at[level - 1].word, &d))
        return 0;
    for (; level > 0; level--)
        if (index_at(s, level, d.address) != at[level - 1].index)
            return 0;
    return d.address;
}

// As add_tree, for the root that has `table` at `place`; what is none leaves nothing behind.
static bool try_table(struct jemalloc_search *s, const struct as_range *variables, uint64_t place, uint64_t table)
{
    size_t regions = s->store->regions.count;
    uint64_t first = first_extent(s, table);
    uint64_t before = (first >> shift_of(s, 0)) * sizeof(uint64_t);
    if (first == 0 || before >= table_size(s, 0) || place - variables->start < before ||
        variables->end - (place - before) < table_size(s, 0))
        return false;
    if (add_tree(s, place - before))
        return true;
    s->store->regions.count = regions;
    s->start = s->end = s->extents = s->mismatches = s->bytes = s->blocks.count = 0;
    return false;
}

// Pointers of an object, whose beginnings are read together.
struct variable_search {
    struct jemalloc_search *search;
    const struct as_range *variables;
    uint64_t places[TOGETHER], tables[TOGETHER];
    size_t count;
    bool found, ended; // there are too many
};

// May a table of level 1 begin so? A word of it that is not 0 leads to a table, or to a descriptor.
static bool may_begin_table(struct jemalloc_search *s, const uint64_t words[BEGINNING])
{
    for (unsigned i = 0; i < BEGINNING; i++)
        if (words[i] != 0)
            return s->shape->levels > 2 ? may_be_table(s, words[i], 2)
                                        : as_is_runtime_range(s->target, descriptor_of(words[i]),
                                                              sizeof(struct extent_descriptor), &s->reads_left);
    return true;
}

// Tries the tables that were put off, in their order.
static void try_tables(struct variable_search *v)
{
    struct jemalloc_search *s = v->search;
    uint64_t words[TOGETHER][BEGINNING];
    bool read[TOGETHER];
    as_target_gather(s->target, v->tables, v->count, sizeof *words, words, sizeof *words, read);
    for (size_t i = 0; i < v->count && !v->found && !v->ended && s->ok; i++) {
        v->ended = s->candidates-- <= 0 || s->reads_left <= 0;
        if (!v->ended && (!read[i] || may_begin_table(s, words[i])))
            v->found = try_table(s, v->variables, v->places[i], v->tables[i]);
    }
    v->count = 0;
}

static bool try_variable(void *context, uint64_t address, uint64_t word)
{
    struct variable_search *v = context;
    if (!may_be_table(v->search, word, 1))
        return true;
    v->places[v->count] = address;
    v->tables[v->count++] = word;
    if (v->count == TOGETHER)
        try_tables(v);
    return !v->found && !v->ended && v->search->ok;
}

// Goes through variables for a pointer to a table.
static bool search_variables(struct jemalloc_search *s, const struct as_range *v)
{
    struct variable_search search = {.search = s, .variables = v};
    int64_t reads_left = FREE_READS;
    as_variable_words_visit(s->words, s->target, &reads_left, *v, try_variable, &search);
    if (search.count > 0)
        try_tables(&search);
    return search.found;
}

// Could the variables from a mapping on have a root?
static bool may_have_root(const struct jemalloc_search *s, size_t i, struct as_range *v)
{
    uint64_t size = table_size(s, 0);
    return as_variables_at(s->target, i, v) && v->end - s->target->mappings.items[i].end >= size / 2 &&
           v->end - v->start >= size;
}

static bool search_mappings(struct jemalloc_search *s)
{
    const struct as_target *t = s->target;
    for (size_t i = 0; i < t->mappings.count && s->ok; i++) {
        struct as_range variables;
        s->candidates = CANDIDATES; // a program may have more pointers than that before jemalloc's turn
        if (may_have_root(s, i, &variables) && search_variables(s, &variables))
            return true;
    }
    return false;
}

bool as_jemalloc_find(const struct as_finder_input *in)
{
    bool found = false;
    size_t first = in->store->regions.count;
    struct jemalloc_search s = {.target = in->target,
                                .store = in->store,
                                .err = in->err,
                                .words = in->words,
                                .first_region = first,
                                .ok = true};
    s.runtime = (uint32_t)in->store->runtimes.count;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes && in->target->page_size == PAGE && s.ok && !found; k++) {
        s.shape = &shapes[k];
        s.reads_left = FREE_READS + as_runtime_read_budget(in->target, PAGE); // an extent has a page at least
        found = search_mappings(&s);
    }
    if (s.ok && found) {
        s.ok = as_runtime_add(in->store, AS_RUNTIME_JEMALLOC, AS_ROW_other_malloc, in->err) != UINT32_MAX;
        if (s.ok)
            as_runtime_found(in->store, s.runtime, s.bytes, "5.0 to 5.3",
                             "each of the %" PRIu64
                             " extents in jemalloc's tree of pages has a descriptor with the address at which the "
                             "tree of %u levels has it; %zu blocks hold the descriptors",
                             s.extents, s.shape->levels, s.blocks.count);
        s.ok = s.ok && as_regions_sort(in->store, first, in->err);
    }
    as_vec_free(&s.blocks);
    return s.ok;
}
