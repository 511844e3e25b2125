// SPDX-License-Identifier: MIT
// What grew since a profile began, of chunks that are made up here: by size, by context, and by type.
#include "graph/section_owners.h"
#include "profile/growth.h"
#include "profile/tables.h"
#include "support/check.h"

enum { CHUNKS = 256, A = AS_PROFILE_FIRST, B, CONTEXTS, LARGE = 1 << 16 };

// A heap with so many chunks in use as have been added, side by side.
struct heap {
    as_boundary_vec boundaries;
    uint32_t id_of[CHUNKS];
    uint64_t at;
};

static void add(struct heap *h, uint64_t tagged, uint32_t id)
{
    uint64_t *one = as_vec_add(&h->boundaries, NULL);
    CHECK(one && h->boundaries.count <= CHUNKS);
    *one = tagged;
    h->id_of[h->boundaries.count - 1] = id;
}

static void add_chunks(struct heap *h, size_t count, uint64_t size, uint32_t id)
{
    for (size_t i = 0; i < count; i++, h->at += size)
        add(h, h->at, id);
}

static struct heap begin(void)
{
    struct heap h = {.at = UINT64_C(1) << 32};
    add(&h, h.at | AS_HEAP_BEGINS, AS_PROFILE_NOBODY);
    return h;
}

static struct as_profile_baseline baseline_of(struct heap *h)
{
    struct as_profile_baseline b = {.exact = true};
    add(h, h->at | AS_GAP, AS_PROFILE_NOBODY);
    CHECK(as_profile_count_sizes(&h->boundaries, &b.sizes, NULL));
    as_vec_free(&h->boundaries);
    return b;
}

struct answer {
    struct as_store store;
    struct as_profile_grown grown[CONTEXTS];
};

static void make(struct answer *a, struct as_profile_baseline *b, struct heap *h, uint32_t rate)
{
    add(h, h->at | AS_GAP | AS_GAP_FREE, AS_PROFILE_NOBODY);
    const struct as_profile_growing g = {b, &h->boundaries, h->id_of, rate, LARGE};
    *a = (struct answer){0};
    CHECK(as_profile_growth_make(&g, &a->store, a->grown, NULL));
    as_vec_free(&h->boundaries);
    as_vec_free(&b->sizes);
}

static void check_size(const struct answer *a, size_t i, uint64_t size, uint64_t before, uint64_t after,
                       uint64_t recorded)
{
    CHECK(i < a->store.profile_sizes.count);
    const struct as_profile_size_record *one = &a->store.profile_sizes.items[i];
    CHECK_EQUAL(one->size, size);
    CHECK_EQUAL(one->before, before);
    CHECK_EQUAL(one->after, after);
    CHECK_EQUAL(one->recorded, recorded);
}

static void check_grown(const struct answer *a, uint32_t id, double count, double bytes)
{
    CHECK(a->grown[id].count == count && a->grown[id].bytes == bytes, "%u has %f chunks, %f bytes", id,
          a->grown[id].count, a->grown[id].bytes);
}

// Two of four new chunks are net growth: half of what each context has. What did not change has no line.
static void test_parts_of_one_size(void)
{
    struct heap was = begin(), is = begin();
    struct answer a;
    add_chunks(&was, 5, 48, AS_PROFILE_NOBODY);
    add_chunks(&was, 7, 64, AS_PROFILE_NOBODY);
    struct as_profile_baseline b = baseline_of(&was);
    add_chunks(&is, 3, 48, AS_PROFILE_NOBODY);
    add_chunks(&is, 3, 48, A);
    add_chunks(&is, 1, 48, B);
    add_chunks(&is, 7, 64, AS_PROFILE_NOBODY);
    make(&a, &b, &is, 1);
    CHECK_EQUAL(a.store.profile_sizes.count, 1);
    check_size(&a, 0, 48, 5, 7, 4);
    check_grown(&a, A, 1.5, 72);
    check_grown(&a, B, 0.5, 24);
    as_store_free(&a.store);
}

// A cache that is smaller now, all of it new; and one that was replaced.
static void test_what_shrank_is_no_growth(void)
{
    struct heap was = begin(), is = begin();
    struct answer a;
    add_chunks(&was, 9, 48, AS_PROFILE_NOBODY);
    add_chunks(&was, 4, 64, AS_PROFILE_NOBODY);
    struct as_profile_baseline b = baseline_of(&was);
    add_chunks(&is, 6, 48, A);
    add_chunks(&is, 4, 64, B);
    make(&a, &b, &is, 1);
    check_size(&a, 0, 48, 9, 6, 6);
    check_size(&a, 1, 64, 4, 4, 4);
    check_grown(&a, A, 0, 0);
    check_grown(&a, B, 0, 0);
    as_store_free(&a.store);
}

// Ten came, of which two were seen: nobody has the other eight.
static void test_what_was_not_seen_is_nobodys(void)
{
    struct heap was = begin(), is = begin();
    struct answer a;
    struct as_profile_baseline b = baseline_of(&was);
    add_chunks(&is, 8, 48, AS_PROFILE_NOBODY);
    add_chunks(&is, 2, 48, A);
    make(&a, &b, &is, 1);
    check_size(&a, 0, 48, 0, 10, 2);
    check_grown(&a, A, 2, 96);
    as_store_free(&a.store);
}

// A small chunk stands for eight; a large one, of which the smallest is in no array, for itself.
static void test_what_a_chunk_stands_for(void)
{
    struct heap was = begin(), is = begin();
    struct answer a;
    add_chunks(&was, 4, 48, AS_PROFILE_NOBODY);
    struct as_profile_baseline b = baseline_of(&was);
    add_chunks(&is, 11, 48, AS_PROFILE_NOBODY);
    add_chunks(&is, 1, 48, A);
    add_chunks(&is, 3, LARGE, B);
    add_chunks(&is, 1, LARGE + 4096, B);
    make(&a, &b, &is, 8);
    check_size(&a, 0, 48, 4, 12, 8);
    check_size(&a, 1, LARGE, 0, 3, 3);
    check_size(&a, 2, LARGE + 4096, 0, 1, 1);
    check_grown(&a, A, 8, 8 * 48);
    check_grown(&a, B, 4, 4 * LARGE + 4096);
    as_store_free(&a.store);
}

// Ascending, whatever the order of heaps; only the small one that was recorded stands for others.
static void test_chunks_are_noted(void)
{
    struct heap h = begin();
    as_boundary_vec noted = {0};
    CHECK(as_vec_push(&noted, NULL, UINT64_C(7))); // of an attempt that was given up
    const uint64_t high = h.at;
    add_chunks(&h, 1, 48, A);
    add_chunks(&h, 1, 48, AS_PROFILE_NOBODY);
    add_chunks(&h, 1, LARGE, B);
    add(&h, h.at | AS_GAP, AS_PROFILE_NOBODY);
    h.at = high / 2;
    add(&h, h.at | AS_HEAP_BEGINS, AS_PROFILE_NOBODY);
    add_chunks(&h, 1, LARGE - 16, B);
    add(&h, h.at | AS_GAP, AS_PROFILE_NOBODY);
    const struct as_profile_growing g = {NULL, &h.boundaries, h.id_of, 8, LARGE};
    CHECK(as_profile_note_chunks(&g, &noted, NULL));
    CHECK_EQUAL(noted.count, 4);
    CHECK_EQUAL(noted.items[0], (high / 2) | AS_NOTED_ON_PAGE);
    CHECK_EQUAL(noted.items[1], high | AS_NOTED_ON_PAGE);
    CHECK_EQUAL(noted.items[2], (high + 48) | AS_NOT_NOTED);
    CHECK_EQUAL(noted.items[3], (high + 96) | AS_NOTED_LARGE);
    as_vec_free(&noted);
    as_vec_free(&h.boundaries);
}

// --- By type ----------------------------------------------------------------------------------------------------------

static void add_type(as_graph_type_vec *types, struct as_strings *strings, const char *name, uint64_t count)
{
    struct as_graph_type_record *type = as_vec_add(types, NULL);
    const bool others = strcmp(name, "others") == 0;
    CHECK(type != NULL);
    *type = (struct as_graph_type_record){.name = others ? 0 : as_strings_add(strings, name, 100),
                                          .flags = others ? AS_GRAPH_OTHERS : 0,
                                          .count = count,
                                          .bytes = 32 * count};
}

static struct as_store grow_types(struct as_profile_baseline *b, struct as_store s)
{
    static const struct as_graph nothing;
    const struct as_type_records none = {0};
    const as_boundary_vec noted = {0};
    CHECK(as_vec_push(&s.profile, NULL, (struct as_profile_record){.page_rate = 1}));
    CHECK(as_growth_records_make(&none, &s, &nothing, b, &noted, NULL));
    as_profile_baseline_free(b);
    return s;
}

static void check_type(const struct as_store *s, size_t i, const char *name, uint64_t before, uint64_t after)
{
    CHECK(i < s->profile_types.count);
    const struct as_profile_type_record *type = &s->profile_types.items[i];
    CHECK(strcmp(as_strings_at(&s->strings, type->name), name) == 0, "%s", as_strings_at(&s->strings, type->name));
    CHECK_EQUAL(type->before_count, before);
    CHECK_EQUAL(type->after_count, after);
    CHECK_EQUAL(type->after_bytes, 32 * after);
    CHECK_EQUAL(type->flags, 0);
}

// Names are what counts, and not places in the lists: those of one name are one, what is the same has no line. Most bytes more come first.
static void test_types_of_one_name_are_one(void)
{
    struct as_profile_baseline b = {.typed = true, .types_exact = true};
    struct as_store s = {0};
    add_type(&b.types, &b.strings, "went", 3);
    add_type(&b.types, &b.strings, "stays", 5);
    add_type(&b.types, &b.strings, "grows", 1);
    add_type(&b.types, &b.strings, "grows", 1);
    add_type(&s.graph_types, &s.strings, "came", 2);
    add_type(&s.graph_types, &s.strings, "grows", 4);
    add_type(&s.graph_types, &s.strings, "grows", 2);
    add_type(&s.graph_types, &s.strings, "stays", 5);
    s = grow_types(&b, s);
    CHECK_EQUAL(s.profile_types.count, 3);
    check_type(&s, 0, "grows", 2, 6);
    check_type(&s, 1, "came", 0, 2);
    check_type(&s, 2, "went", 3, 0);
    CHECK_EQUAL(s.profile.items[0].types_exact, 0); // as this snapshot does not say that it is
    as_store_free(&s);
}

// A type that only one list has is one of the others of the other list: it did not come, or go.
static void test_types_without_room_are_others(void)
{
    struct as_profile_baseline b = {.typed = true, .types_exact = true};
    struct as_store s = {.meta.flags = AS_META_EXACT};
    add_type(&b.types, &b.strings, "both", 9);
    add_type(&b.types, &b.strings, "others", 7);
    add_type(&s.graph_types, &s.strings, "both", 10);
    add_type(&s.graph_types, &s.strings, "risen", 8);
    s = grow_types(&b, s);
    CHECK_EQUAL(s.profile_types.count, 2);
    check_type(&s, 0, "both", 9, 10);
    const struct as_profile_type_record *others = &s.profile_types.items[1];
    CHECK_EQUAL(others->flags, AS_GRAPH_OTHERS);
    CHECK_EQUAL(others->before_count, 7);
    CHECK_EQUAL(others->after_count, 8);
    CHECK_EQUAL(s.profile.items[0].types_exact, 1);
    as_store_free(&s);
}

int main(void)
{
    test_parts_of_one_size();
    test_what_shrank_is_no_growth();
    test_what_was_not_seen_is_nobodys();
    test_what_a_chunk_stands_for();
    test_chunks_are_noted();
    test_types_of_one_name_are_one();
    test_types_without_room_are_others();
    return 0;
}
