// SPDX-License-Identifier: MIT
// jemalloc by structure. Its variables have a radix tree with an element for each page at which one of its extents begins: a root
// of 2^18 pointers to leaves, a leaf of 2^18 words, each with the address of a descriptor, which has the extent's address and size.
// So a word's place in the tree says which address its descriptor must have: a pointer to anything else does not pass. The
// descriptors themselves, and the leaves, are in blocks of jemalloc's own, whose headers add up. The structures are those of rtree.h,
// extent_structs.h (edata.h from 5.3 on) and base_structs.h, as known of 5.0 to 5.3, tested on 5.3.
#include "runtimes/jemalloc.h"

#include "base/align.h"
#include "runtimes/regions.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    PAGE = 4096, // jemalloc's: another build divides addresses otherwise
    PAGE_BITS = 12,
    LEAF_BITS = 30, // of addresses that a leaf is for
    ELEMENTS = 1 << 18,
    TABLE = ELEMENTS * 8, // bytes of the root, and of a leaf
    STEP = 512,           // words that are read in one go
    ALIGNMENT = 64,       // of a leaf and of a descriptor; the bits below are flags
    BLOCK = 2 << 20,      // bytes: jemalloc's own blocks are multiples of it, at multiples of it
    BLOCKS_BACK = 8,      // multiples that a block may begin before what is in it
    MOST_BLOCKS = 4096,
    MOST_LEAVES = 1024,   // of 1 GiB each
    CANDIDATES = 256,     // pointers that are tried as leaves
    FREE_LOOKS = 1 << 16, // at a descriptor or at STEP words, whatever the target's size
    MISMATCHES = 8,       // a thread may stand between two changes of the tree
    EVIDENCE = 256,
};
static const uint64_t LARGEST_VARIABLES = UINT64_C(1) << 28; // bytes of .bss

struct extent_descriptor {
    uint64_t bits, address, size; // of size the lowest 12 bits are a number
};
struct own_block {
    uint64_t size, next;
    struct extent_descriptor rest; // what is still free at the block's end
};

struct jemalloc_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    int64_t looks; // that are left
    int candidates;
    bool ok;             // false: our memory ran out
    uint64_t start, end; // of the run of extents that goes on
    uint64_t extents, mismatches, bytes;
    AS_VEC(struct as_range) blocks;
};

static bool is_memory(const struct jemalloc_search *s, uint64_t address, uint64_t length)
{
    const struct as_mapping *m = as_target_mapping_at(s->target, address);
    return as_is_runtime_memory(m) && m->end - address >= length;
}

static uint64_t descriptor_of(uint64_t element)
{
    return element << 16 >> 16 & ~(uint64_t)(ALIGNMENT - 1);
}

// Reads the descriptor that an element leads to. False: there is none.
static bool read_descriptor(struct jemalloc_search *s, uint64_t element, struct extent_descriptor *d)
{
    uint64_t at = descriptor_of(element);
    return at != 0 && --s->looks > 0 && is_memory(s, at, sizeof *d) && as_target_read(s->target, at, d, sizeof *d);
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
    return --s->looks > 0 && is_memory(s, address, sizeof *b) && as_target_read(s->target, address, b, sizeof *b) &&
           b->size > 0 && b->size % BLOCK == 0 && b->size <= UINT64_MAX - address && b->rest.address > address &&
           b->rest.address <= address + b->size && b->rest.size == address + b->size - b->rest.address;
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
        struct as_range *block = as_vec_add(&s->blocks, s->err);
        s->ok = block && as_regions_add(s->target, s->store, s->runtime, at, at + b.size, &s->bytes, s->err);
        if (block)
            *block = (struct as_range){at, at + b.size};
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
static void take(struct jemalloc_search *s, uint64_t page, uint64_t element)
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

// What is done with each word of a table that is not 0; false ends it.
typedef bool visit_fn(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word);

static void visit_table(struct jemalloc_search *s, uint64_t table, visit_fn *visit, void *context)
{
    uint64_t words[STEP];
    uint64_t end = table + TABLE;
    bool more = true;
    for (uint64_t at = table; at < end && more && s->ok;) {
        uint64_t page = as_align_down(at, s->target->page_size);
        uint64_t present = as_target_skip_absent(s->target, page, as_align_up(end, s->target->page_size));
        at = present > at ? present + (table - present) % sizeof *words : at;
        size_t length = at < end && end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        if (at >= end || --s->looks <= 0 || !as_target_read(s->target, at, words, length))
            return;
        for (size_t i = 0; i < length / sizeof *words && more; i++)
            if (words[i] != 0)
                more = visit(s, context, (at - table) / sizeof *words + i, words[i]);
        at += length;
    }
}

static bool visit_element(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word)
{
    const uint64_t *first = context;
    take(s, *first + (index << PAGE_BITS), word);
    return s->ok && s->looks > 0 && s->mismatches <= MISMATCHES;
}

struct leaf_list {
    struct {
        uint64_t index, address;
    } items[MOST_LEAVES];
    size_t count;
    bool fit;
};

static bool visit_leaf(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word)
{
    struct leaf_list *leaves = context;
    leaves->fit = leaves->count < MOST_LEAVES && word % ALIGNMENT == 0 && is_memory(s, word, TABLE);
    if (!leaves->fit)
        return false;
    leaves->items[leaves->count].index = index;
    leaves->items[leaves->count++].address = word;
    return true;
}

// Adds all that the tree at `root` has. False: it is none.
static bool add_tree(struct jemalloc_search *s, uint64_t root)
{
    struct leaf_list leaves = {.count = 0};
    visit_table(s, root, visit_leaf, &leaves);
    for (size_t i = 0; i < leaves.count && leaves.fit && s->ok; i++) {
        uint64_t first = leaves.items[i].index << LEAF_BITS;
        add_block(s, leaves.items[i].address);
        visit_table(s, leaves.items[i].address, visit_element, &first);
    }
    end_run(s);
    return leaves.fit && s->ok && s->looks > 0 && s->extents > 0 && s->mismatches <= MISMATCHES;
}

// --- Where the tree is ------------------------------------------------------------------------------------------------

struct first_extent {
    uint64_t address; // of the first extent of a leaf
    uint64_t index;
};

static bool visit_first(struct jemalloc_search *s, void *context, uint64_t index, uint64_t word)
{
    struct first_extent *first = context;
    struct extent_descriptor d;
    if (read_descriptor(s, word, &d) && (d.address >> PAGE_BITS & (ELEMENTS - 1)) == index)
        *first = (struct first_extent){d.address, index};
    return false;
}

// As add_tree, for the root that has `leaf` at `place`; what is none leaves nothing behind.
static bool try_leaf(struct jemalloc_search *s, const struct as_range *variables, uint64_t place, uint64_t leaf)
{
    struct first_extent first = {0};
    size_t regions = s->store->regions.count;
    visit_table(s, leaf, visit_first, &first);
    uint64_t before = (first.address >> LEAF_BITS) * sizeof(uint64_t);
    if (first.address == 0 || before >= TABLE || place - variables->start < before ||
        variables->end - (place - before) < TABLE)
        return false;
    if (add_tree(s, place - before))
        return true;
    s->store->regions.count = regions;
    s->start = s->end = s->extents = s->mismatches = s->bytes = s->blocks.count = 0;
    return false;
}

// Goes through variables for a pointer to a leaf.
static bool search_variables(struct jemalloc_search *s, const struct as_range *v)
{
    uint64_t words[STEP];
    for (uint64_t at = v->start; at < v->end && s->ok; at += sizeof words) {
        at = as_target_skip_absent(s->target, as_align_down(at, s->target->page_size), v->end);
        size_t length = at < v->end && v->end - at < sizeof words ? (size_t)(v->end - at) : sizeof words;
        if (at >= v->end || !as_target_read(s->target, at, words, length))
            return false;
        for (size_t i = 0; i < length / sizeof *words; i++) {
            if (words[i] == 0 || words[i] % ALIGNMENT != 0 || !is_memory(s, words[i], TABLE))
                continue;
            if (s->candidates-- <= 0 || s->looks <= 0)
                return false;
            if (try_leaf(s, v, at + i * sizeof *words, words[i]))
                return true;
        }
    }
    return false;
}

// Could the variables of a program or library, from a mapping of its file to the end of the nameless memory behind it, have a root?
static bool may_have_root(const struct as_target *t, size_t i, struct as_range *v)
{
    const struct as_mapping *m = &t->mappings.items[i];
    if (i + 1 >= t->mappings.count || !as_mapping_of_file(m) || !(m->prot & AS_PROT_WRITE) ||
        (m->prot & AS_PROT_SHARED) || m[1].start != m->end || !as_is_runtime_memory(&m[1]) ||
        *as_mapping_path(t, &m[1]) != 0)
        return false;
    *v = (struct as_range){m->start, m[1].end};
    return m[1].end - m[1].start >= TABLE / 2 && v->end - v->start >= TABLE && v->end - v->start <= LARGEST_VARIABLES;
}

static void settle(struct jemalloc_search *s)
{
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    char text[EVIDENCE];
    snprintf(text, sizeof text,
             "each of the %" PRIu64
             " extents in jemalloc's tree of pages has a descriptor with the address at which the "
             "tree has it; %zu blocks hold the descriptors",
             s->extents, s->blocks.count);
    record->evidence = as_strings_add(&s->store->strings, text, sizeof text);
    record->releases = as_strings_add(&s->store->strings, "5.0 to 5.3", EVIDENCE);
    record->state = AS_REGIONS_FOUND;
    record->committed = s->bytes;
}

bool as_jemalloc_find(struct as_target *t, struct as_store *store, bool *found, struct as_error *err)
{
    size_t first = store->regions.count;
    struct jemalloc_search s = {.target = t, .store = store, .err = err, .candidates = CANDIDATES, .ok = true};
    s.looks = FREE_LOOKS;
    *found = false;
    for (size_t i = 0; i < t->mappings.count; i++) // an extent has a page at least
        s.looks += as_is_runtime_memory(&t->mappings.items[i])
                       ? (int64_t)((t->mappings.items[i].end - t->mappings.items[i].start) / PAGE)
                       : 0;
    for (size_t i = 0; i < t->mappings.count && t->page_size == PAGE && s.ok && !*found; i++) {
        struct as_range variables;
        if (!may_have_root(t, i, &variables))
            continue;
        s.runtime = (uint32_t)store->runtimes.count;
        *found = search_variables(&s, &variables);
        if (*found && as_runtime_add(store, AS_RUNTIME_JEMALLOC, AS_ROW_other_malloc, err) == UINT32_MAX)
            s.ok = false;
    }
    if (s.ok && *found) {
        settle(&s);
        s.ok = as_regions_sort(store, first, err);
    }
    as_vec_free(&s.blocks);
    return s.ok;
}
