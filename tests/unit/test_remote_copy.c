// SPDX-License-Identifier: MIT
// Tables of a recorder, copied whole and piece by piece: in order, in no order, and where the target has none of them.
#include "base/align.h"
#include "profile/remote_copy.h"
#include "support/mock.h"

enum { PAGE = 4096, ENTRY = 512, ENTRIES = 16384, OFFSET = 4096, HOLE = 1 << 20 };

static const uint64_t HEAD = UINT64_C(0x100000000000);

struct scene {
    struct mock *m;
    struct as_profile_head head;
    struct as_profile_source source;
};

// What an entry begins with. The entries of a MiB are missing.
static uint64_t truth(uint64_t index)
{
    uint64_t at = index * ENTRY;
    return at >= HOLE && at < 2 * HOLE ? 0 : 7 * index + 1;
}

static struct scene *filled(void)
{
    static struct scene s;
    uint64_t bytes = OFFSET + (uint64_t)ENTRIES * ENTRY;
    s.m = mock_new(PAGE);
    mock_map(s.m, HEAD, as_align_up(bytes, MOCK_GRANULE), "");
    s.head = (struct as_profile_head){.self = HEAD, .blocks.offset = OFFSET};
    s.source = (struct as_profile_source){&s.m->target, &s.head, &s.head.blocks, ENTRIES, ENTRY};
    for (uint64_t i = 0; i < ENTRIES; i++)
        if (truth(i) != 0)
            mock_poke(s.m, HEAD + OFFSET + i * ENTRY, truth(i));
    mock_pages(s.m, HEAD + OFFSET + HOLE, HEAD + OFFSET + 2 * HOLE, 0);
    s.m->bytes_read = 0;
    return &s;
}

static uint64_t first_word(const void *entry)
{
    uint64_t word;
    memcpy(&word, entry, sizeof word);
    return word;
}

// Asks for all entries, in steps, from the first on.
static void ask(struct as_profile_pieces *p, uint64_t step)
{
    for (uint64_t i = 0, at = 0; i < ENTRIES; i++, at = (at + step) % ENTRIES)
        CHECK(first_word(as_profile_piece(p, at)) == truth(at), "entry %lu by steps of %lu", at, step);
}

static void in_steps(uint64_t step, uint64_t turns)
{
    struct scene *s = filled();
    struct as_profile_pieces p = {.source = s->source};
    CHECK(as_profile_pieces_open(&p, NULL));
    ask(&p, step);
    uint64_t all = (uint64_t)ENTRIES * ENTRY;
    CHECK(s->m->bytes_read <= turns * all + all / 64, "%lu bytes read of %lu, by steps of %lu", s->m->bytes_read, all,
          step);
    as_profile_pieces_free(&p);
    mock_free(s->m);
}

static void pieces_are_read_once_in_order(void)
{
    in_steps(1, 1);
    in_steps(ENTRIES - 1, 1);
}

static void pieces_in_no_order_are_read_a_few_times(void)
{
    in_steps(4099, 5);
}

static void a_copy_has_all_entries(void)
{
    struct scene *s = filled();
    char *copy = as_profile_copy(&s->source, NULL);
    CHECK(copy);
    for (uint64_t i = 0; i < ENTRIES; i++)
        CHECK(first_word(copy + i * ENTRY) == truth(i), "entry %lu", i);
    as_profile_copy_free(&s->source, copy);
    mock_free(s->m);
}

int main(void)
{
    pieces_are_read_once_in_order();
    pieces_in_no_order_are_read_a_few_times();
    a_copy_has_all_entries();
    return 0;
}
