// SPDX-License-Identifier: MIT
// The frames of a stack, with an interpreter's: what is taken from the stack before is what would have come of the
// whole. Each stack has the outer frames of the one before, and others within; some have more frames than there is room
// for.
#include "recorder/hot_path.h"
#include "recorder/merge_frames.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { STACKS = 200000, SOME = 24, DEEP = 250, NAMES = 64 };
#define BOTTOM (UINT64_C(1) << 40)
#define LOOP UINT64_C(0x1000)

// Counted from the outermost one. A C function may run interpreted ones.
struct function {
    uintptr_t pc, end; // where it goes on, and where its stack frame ends: towards what it calls
    size_t inner;      // interpreted frames
    struct as_inner_frame frames[3];
};
struct stack {
    size_t count;
    struct function functions[AS_RECORDER_DEPTH];
};

static uint64_t state = 1;

static uint64_t random_below(uint64_t most)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (state >> 33) % most;
}

// Names are those that are remembered by their keys.
static uint64_t key_of(uint64_t name)
{
    return name * AS_RECORDER_FACTOR;
}

static void remember_names(void)
{
    for (uint64_t name = 1; name <= NAMES; name++) {
        uint64_t key = as_recorder_mix_in(AS_PROFILE_RUBY, key_of(name));
        struct as_inner_known *known = &as_recorder.names[key & (AS_INNER_NAMES - 1)];
        CHECK_EQUAL(known->identity, 0);
        known->identity = name;
        known->check = key ^ name;
    }
}

static uintptr_t begin_of(const struct function *f, const struct stack *s)
{
    return f > s->functions ? f[-1].end : BOTTOM;
}

// The place of what a function runs is in its stack frame.
static void run_frames(struct function *f, const struct stack *s)
{
    f->inner = random_below(4) == 0 ? 1 + random_below(3) : 0;
    for (size_t i = 0; i < f->inner; i++)
        f->frames[i] = (struct as_inner_frame){.key = key_of(1 + random_below(NAMES)), .place = begin_of(f, s) - 32};
}

static void add_function(struct stack *s)
{
    struct function *f = &s->functions[s->count++];
    f->pc = random_below(4) == 0 ? LOOP + random_below(8) : 2 * LOOP + random_below(8);
    f->end = begin_of(f, s) - 64 - random_below(4) * 16;
    run_frames(f, s);
}

// Some functions return, one that stays runs other frames perhaps, and others are called.
static void change(struct stack *s, size_t most)
{
    s->count = random_below(s->count + 1);
    if (s->count > 0 && random_below(3) == 0)
        run_frames(&s->functions[random_below(s->count)], s);
    size_t count = s->count + random_below(most / 2) + (s->count == 0);
    while (s->count < count && s->count < most)
        add_function(s);
}

static void write_walk(const struct stack *s, struct as_inner_walk *walk)
{
    memset(walk, 0xff, sizeof *walk); // nothing is there from the stack before
    walk->count = 0;
    walk->language = AS_PROFILE_RUBY;
    walk->loop = LOOP;
    walk->loop_end = LOOP + 4;
    for (size_t j = s->count; j-- > 0;)
        for (size_t i = s->functions[j].inner; i-- > 0 && walk->count < AS_RECORDER_DEPTH - 1;)
            walk->frames[walk->count++] = s->functions[j].frames[i];
    walk->cut = false;
}

// Counts the functions that are what they were: they go on at the same place, and what they were called by does.
static size_t common(const struct stack *a, const struct stack *b)
{
    size_t same = 0;
    while (same < a->count && same < b->count && a->functions[same].pc == b->functions[same].pc &&
           a->functions[same].end == b->functions[same].end)
        same++;
    return same;
}

static struct as_recorder_merged merge(const struct stack *s, struct as_inner_walk *walk, uint64_t *room,
                                       struct as_recorder_last_stack *last)
{
    static const struct as_unwind_modules none = {0};
    static uintptr_t pcs[AS_RECORDER_DEPTH], ends[AS_RECORDER_DEPTH];
    size_t count = s->count - 1;
    for (size_t i = 0; i < count; i++) {
        const struct function *caller = &s->functions[count - i - 1];
        pcs[i] = caller->pc;
        ends[i] = caller->end;
    }
    write_walk(s, walk);
    struct as_recorder_unwound u = {
        .modules = &none, .pc = s->functions[count].pc, .count = count, .pcs = pcs, .ends = ends, .walk = walk};
    return as_recorder_merge(&u, room, last);
}

// As contexts.c writes a stack down.
static void keep(struct as_recorder_last_stack *last, const struct as_recorder_merged *m)
{
    memcpy(last->frames + m->same, m->frames + m->same, (m->count - m->same) * sizeof *m->frames);
    last->count = m->count;
    last->functions = last->common = m->functions;
}

int main(void)
{
    const struct as_recorder_rates rates = {.memory = UINT64_C(64) << 20};
    CHECK(as_recorder_map(&rates, false));
    remember_names();
    struct as_inner_walk *walk = calloc(2, sizeof *walk);
    struct as_recorder_last_stack *last = calloc(1, sizeof *last);
    struct stack *before = calloc(2, sizeof *before), *now = before + 1;
    static uint64_t room[AS_RECORDER_DEPTH], whole_room[AS_RECORDER_DEPTH];
    size_t saved = 0, cut = 0;
    for (size_t i = 0; i < STACKS; i++) {
        *now = *before;
        change(now, i % 1000 < 50 ? DEEP : SOME);
        size_t same = common(before, now);
        last->common = last->common < same ? last->common : same;
        struct as_recorder_merged m = merge(now, walk, room, last), whole = merge(now, walk + 1, whole_room, NULL);
        CHECK_EQUAL(m.count, whole.count);
        CHECK_EQUAL(m.cut, whole.cut);
        CHECK(memcmp(m.frames + m.same, whole.frames + m.same, (m.count - m.same) * sizeof *m.frames) == 0);
        CHECK(memcmp(last->frames, whole.frames, m.same * sizeof *whole.frames) == 0);
        saved += m.same;
        cut += m.cut;
        if (random_below(4) > 0) // else its context was known
            keep(last, &m);
        *before = *now;
    }
    CHECK(saved > STACKS, "frames are taken from the stack before");
    CHECK(cut > STACKS / 1000, "stacks have more frames than there is room for");
    return 0;
}
