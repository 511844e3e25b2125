// SPDX-License-Identifier: MIT
// Layouts of stacks are found by their keys while their lines grow and when the first are written over; contexts near them, and those that
// have no place there.
#include "recorder/hot_path.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { SIGNATURES = 1 << 10, SAME_KEY = AS_LAYOUT_WAYS + 2 };

static void *room(size_t bytes)
{
    void *memory = aligned_alloc(128, bytes);
    CHECK(memory);
    memset(memory, 0, bytes);
    return memory;
}

static void begin(void)
{
    static struct as_profile_head head;
    struct as_recorder *r = &as_recorder;
    if (!r->layouts) {
        r->layouts = room(AS_RECORDER_LAYOUTS * sizeof *r->layouts);
        r->layout_lines = room(AS_RECORDER_LAYOUT_LINES * sizeof *r->layout_lines);
        r->signatures = room(SIGNATURES * sizeof *r->signatures);
    }
    memset(r->layouts, 0, AS_RECORDER_LAYOUTS * sizeof *r->layouts);
    memset(r->layout_lines, 0, AS_RECORDER_LAYOUT_LINES * sizeof *r->layout_lines);
    memset(r->signatures, 0, SIGNATURES * sizeof *r->signatures);
    r->head = &head;
    r->layouts_taken = 0;
    r->most_layouts = AS_RECORDER_LAYOUTS;
    r->layout_mask = AS_RECORDER_FIRST_LINES - 1;
    r->signature_mask = SIGNATURES - 1;
    r->most_signatures = SIGNATURES;
    r->threaded = false;
}

static uint64_t key_of(uint64_t number)
{
    return as_recorder_mix_in(0, number + 1) | 1;
}

static struct as_recorder_layout *keep(uint64_t key, uint64_t seed)
{
    struct as_recorder_layout layout = {.key = key, .seed = seed, .groups = {{{seed}}}};
    return as_recorder_keep_layout(&layout);
}

static struct as_recorder_layout *find(uint64_t key)
{
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++) {
        struct as_recorder_layout *found = as_recorder_layout_for(as_recorder_layout_line(key), way, key);
        if (found)
            return found;
    }
    return NULL;
}

static uint64_t count_found(uint64_t from, uint64_t to)
{
    uint64_t found = 0;
    for (uint64_t i = from; i < to; i++) {
        struct as_recorder_layout *layout = find(key_of(i));
        CHECK(!layout || (layout->key == key_of(i) && layout->seed == i && layout->groups[0][0][0] == i));
        found += layout != NULL;
    }
    return found;
}

static void test_they_grow(void)
{
    begin();
    for (uint64_t i = 0; i < AS_RECORDER_LAYOUTS; i++) {
        struct as_recorder_layout *kept = keep(key_of(i), i);
        CHECK(find(key_of(i)) == kept);
        CHECK(keep(key_of(i), i) == kept);
        uint64_t places = (as_recorder.layout_mask + 1) * AS_LAYOUT_WAYS;
        CHECK(2 * as_recorder.layouts_taken <= places);
        CHECK(places == AS_RECORDER_FIRST_LINES * AS_LAYOUT_WAYS || 4 * as_recorder.layouts_taken > places);
        if ((i & (i + 1)) == 0) // a line has room for the most that fall on it; few find none
            CHECK(100 * count_found(0, i + 1) >= 97 * (i + 1));
    }
    CHECK(as_recorder.layouts_taken == AS_RECORDER_LAYOUTS);
}

static void test_the_first_are_written_over(void)
{
    const uint64_t more = AS_RECORDER_LAYOUTS / 2;
    begin();
    for (uint64_t i = 0; i < AS_RECORDER_LAYOUTS + more; i++)
        keep(key_of(i), i);
    CHECK(count_found(0, more) == 0);
    CHECK(100 * count_found(more, AS_RECORDER_LAYOUTS + more) >= 95 * (uint64_t)AS_RECORDER_LAYOUTS);
}

static void test_layouts_of_one_key(void)
{
    const uint64_t key = key_of(0);
    struct as_recorder_layout *kept[SAME_KEY];
    begin();
    for (uint64_t i = 0; i < SAME_KEY; i++)
        kept[i] = keep(key, i);
    uint64_t there = 0;
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++)
        for (uint64_t i = 0; i < SAME_KEY; i++)
            there += as_recorder_layout_for(as_recorder_layout_line(key), way, key) == kept[i];
    CHECK(there == AS_LAYOUT_WAYS);
    CHECK(find(key) == kept[0]); // what comes first is kept
}

static uint64_t signature_of(uint64_t number, uint64_t place)
{
    return (as_recorder_mix_in(1, number + 1) & ~(uint64_t)(AS_LAYOUT_NEAR - 1)) | place;
}

static void test_contexts_are_near(void)
{
    begin();
    struct as_recorder_layout *layout = keep(key_of(0), 0);
    for (uint32_t i = 0; i < AS_LAYOUT_NEAR; i++)
        as_recorder_learn(layout, signature_of(i, i), AS_PROFILE_FIRST + i);
    CHECK(!layout->others);
    memset(as_recorder.signatures, 0, SIGNATURES * sizeof *as_recorder.signatures); // they are found without
    for (uint32_t i = 0; i < AS_LAYOUT_NEAR; i++)
        CHECK(as_recorder_known_by(layout, signature_of(i, i)) == AS_PROFILE_FIRST + i);
    as_recorder_learn(layout, signature_of(1, 1), 1000); // it was taken for another one
    CHECK(as_recorder_known_by(layout, signature_of(1, 1)) == 1000);
    CHECK(!layout->others);
    // All of its own are near: what another layout has learnt is not searched for among all.
    as_recorder_learn(keep(key_of(1), 1), signature_of(100, 0), 1001);
    CHECK(as_recorder_known(signature_of(100, 0)) == 1001);
    CHECK(as_recorder_known_by(layout, signature_of(100, 0)) == 0);
}

// Contexts that share a place: each is found, and comes near where the thread is alone.
static void test_more_contexts(bool threaded)
{
    begin();
    as_recorder.threaded = threaded;
    struct as_recorder_layout *layout = keep(key_of(0), 0);
    const uint64_t first = signature_of(0, 2), second = signature_of(1, 2);
    as_recorder_learn(layout, first, 10);
    as_recorder_learn(layout, second, 11);
    CHECK(layout->others);
    CHECK(as_recorder_known_by(layout, second) == 11);
    CHECK(as_recorder_known_by(layout, first) == 10);
    CHECK(as_recorder_id_in(*as_recorder_near(layout, first), first) == (threaded ? 0 : 10));
    CHECK(as_recorder_known_by(layout, second) == 11);
    for (uint32_t i = 2; i < 20; i++)
        as_recorder_learn(layout, signature_of(i, 2), 10 + i);
    for (uint32_t i = 0; i < 20; i++)
        CHECK(as_recorder_known_by(layout, signature_of(i, 2)) == 10 + i);
}

// Those that were learnt stay known while there are more and more of them.
static void test_signatures_grow(bool every)
{
    enum { MANY = SIGNATURES / 4 };
    begin();
    as_recorder.every = every;
    as_recorder.signature_mask = AS_RECORDER_SIGNATURE_WAYS - 1;
    struct as_recorder_layout *layout = keep(key_of(0), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        as_recorder.head->contexts.used = AS_PROFILE_FIRST + i + 1;
        as_recorder_learn(layout, as_recorder_mix_in(2, i), AS_PROFILE_FIRST + i);
        CHECK(as_recorder_known(as_recorder_mix_in(2, i)) == AS_PROFILE_FIRST + i);
        CHECK(as_recorder.signature_mask + 1 >= i * (every ? 2 : 1));
        CHECK(as_recorder.signature_mask < (every ? 8 : 4) * (i + 1 + AS_PROFILE_FIRST));
    }
    uint32_t known = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t id = as_recorder_known(as_recorder_mix_in(2, i));
        CHECK(id == 0 || id == AS_PROFILE_FIRST + i);
        known += id != 0;
    }
    CHECK(100 * known >= (every ? 90 : 70) * MANY, "%u of %d", known, MANY);
}

int main(void)
{
    test_signatures_grow(false);
    test_signatures_grow(true);
    test_they_grow();
    test_the_first_are_written_over();
    test_layouts_of_one_key();
    test_contexts_are_near();
    test_more_contexts(false);
    test_more_contexts(true);
    return 0;
}
