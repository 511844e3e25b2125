// SPDX-License-Identifier: MIT
// The first slot of pages of Ruby's on mock memory, wherever it begins: behind a heap of malloc's it is no node if the index of nodes has no
// place for it, as that is malloc's.
#include "runtimes/ruby.h"
#include "runtimes/ruby_layouts.h"
#include "support/mock.h"

enum { PAGE = 65536, SLOT = 40, SLOTS = 3 };
static const uint64_t START = UINT64_C(0x7f0000000000);

struct seen {
    uint64_t start, end; // of the one region
    uint64_t blocks[SLOTS];
    size_t count;
};

static bool see_region(void *context, uint64_t start, uint64_t end)
{
    struct seen *s = context;
    CHECK(s->end == 0);
    s->start = start;
    s->end = end;
    return true;
}

static bool see_block(void *context, const struct as_visited_block *block)
{
    struct seen *s = context;
    if (block->region_end == 0) // a descriptor of a page, which is malloc's
        return true;
    CHECK(s->count < SLOTS && block->size == SLOT && block->region_end == START + PAGE);
    s->blocks[s->count++] = block->address;
    return true;
}

static bool see_memory(void *context, const struct as_visited_memory *memory)
{
    (void)context;
    (void)memory;
    return true;
}

static bool see_type(void *context, const struct as_visited_type *type)
{
    (void)context;
    (void)type;
    return true;
}

// `out`: the first slot is expected to be left out.
static void check_page(uint32_t first_slot, bool behind_heap, bool out)
{
    struct mock *m = mock_new(0);
    struct as_store store = {.meta.ruby = AS_RUBY_FOUND};
    struct seen seen = {0};
    const struct as_range heaps = {START - PAGE, START};
    const struct as_object_visitor visitor = {&seen, see_region, see_block, see_memory, see_type};
    size_t layouts;
    struct as_visited visited;
    mock_map(m, START, PAGE, "");
    for (uint32_t i = 0; i < SLOTS; i++)
        mock_poke(m, START + first_slot + (uint64_t)i * SLOT, AS_RUBY_T_FLOAT);
    const char *releases = as_ruby_layouts(&layouts)->releases;
    store.meta.ruby_releases = as_strings_add(&store.strings, releases, strlen(releases) + 1);
    *as_vec_add(&store.ruby, NULL) = (struct as_ruby_page_record){.address = START,
                                                                  .size = PAGE,
                                                                  .first_slot = first_slot,
                                                                  .slot_size = SLOT,
                                                                  .total_slots = SLOTS,
                                                                  .heap = UINT32_MAX};
    *as_vec_add(&store.heaps, NULL) =
        (struct as_heap_record){.start = START - PAGE, .end = behind_heap ? START : START - PAGE / 2};
    CHECK(as_ruby_visit(&m->target, &store, &heaps, NULL, 0, &visitor, &visited, NULL) && visited.known);
    CHECK(seen.end == START + PAGE && seen.start == START + (out ? first_slot + SLOT : 0));
    CHECK(seen.count == (size_t)(SLOTS - out), "%zu slots, from %u on", seen.count, first_slot);
    for (size_t i = 0; i < seen.count; i++)
        CHECK(seen.blocks[i] == START + first_slot + (i + out) * SLOT);
    as_store_free(&store);
    mock_free(m);
}

int main(void)
{
    for (uint32_t first_slot = 8; first_slot <= 64; first_slot += 8) {
        check_page(first_slot, false, false);
        check_page(first_slot, true, first_slot == 8 || first_slot == 24);
    }
    return 0;
}
