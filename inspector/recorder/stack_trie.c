// SPDX-License-Identifier: MIT
// The tree of stacks, in branches. No lock is taken. A thread writes all of a branch before others can find it.
#include "recorder/hot_path.h"

// --- Frames -----------------------------------------------------------------------------------------------------------

static bool is_frame(uint32_t place, const void *wanted)
{
    return as_recorder.frames[place] == *(const uint64_t *)wanted;
}

static struct as_recorder_chain chain_of(uint64_t frame)
{
    return (struct as_recorder_chain){.used = as_recorder_used(&as_recorder.head->frames),
                                      .hash = (uint32_t)(as_recorder_mix_in(0, frame) >> 32)};
}

// Its place in the table; 0: there is no room. (Where threads are on different levels of the chains, it has several.)
static uint32_t find_or_add_frame(uint64_t frame)
{
    struct as_profile_table *table = &as_recorder.head->frames;
    struct as_recorder_chain chain = chain_of(frame);
    uint32_t known = as_recorder_chains_find(&as_recorder.frame_chains, &chain, is_frame, &frame);
    if (known)
        return known;
    uint64_t place = as_recorder_take_places(table, 1);
    if (place == UINT64_MAX)
        return 0;
    as_recorder.frames[place] = frame;
    return as_recorder_chains_add(&as_recorder.frame_chains, &chain, (uint32_t)place, is_frame, &frame);
}

// All at once: one after another, most of the time would be waiting for memory.
static void prefetch_frames(const uint64_t *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct as_recorder_chain chain = chain_of(frames[i]);
        as_recorder_chains_prefetch(&as_recorder.frame_chains, &chain);
    }
}

// A branch whose frames have no room must not take any of the stacks' room.
static bool has_room_for(const uint64_t *frames, size_t count)
{
    const struct as_profile_table *table = &as_recorder.head->frames;
    if (as_recorder_used(table) + count <= table->size)
        return true;
    for (size_t i = 0; i < count; i++)
        if (find_or_add_frame(frames[i]) == 0)
            return false;
    return true;
}

// --- Branches ---------------------------------------------------------------------------------------------------------

// The first stack of a branch. In its chain it has AS_PROFILE_BRANCH_BIT: what links to it resembles no frame.
struct first_stack {
    uint64_t frame;
    uint32_t caller;
};

static bool has_frame(uint32_t stack, uint64_t frame)
{
    return as_recorder.frames[as_recorder.stacks[stack]] == frame;
}

static bool is_stack(uint32_t id, const void *wanted)
{
    const struct first_stack *w = wanted;
    uint32_t stack = id & ~AS_PROFILE_BRANCH_BIT;
    return as_profile_caller(as_recorder.stacks, stack) == w->caller && has_frame(stack, w->frame);
}

// A branch to be found or added.
struct branch {
    struct as_recorder_chain chain; // of its first stack
    struct first_stack first;
    _Atomic uint64_t *filter; // the word of the filter that has its bit; NULL: there is no filter
    uint64_t bit;
    bool is_new; // the filter has said so
};

static uint32_t find_branch(struct branch *b)
{
    return as_recorder_chains_find(&as_recorder.branch_chains, &b->chain, is_stack, &b->first) & ~AS_PROFILE_BRANCH_BIT;
}

// Most branches that are searched for are new. A Bloom filter with one hash says so sooner than the chains of two levels, whose heads and
// entries would be waited for. Callers that lie together have their bits in the same line of a processor's cache.
static void search_filter(struct branch *b)
{
    enum { LINE_BITS = 9, CALLERS = 6 };
    const uint64_t line = (uint64_t)b->first.caller >> CALLERS << LINE_BITS;
    const uint64_t at = (line | b->chain.hash >> (32 - LINE_BITS)) & as_recorder.branch_filter_mask;
    if (!as_recorder.branch_filter)
        return;
    b->filter = &as_recorder.branch_filter[at / 64];
    b->bit = UINT64_C(1) << at % 64;
    b->is_new = !(atomic_load_explicit(b->filter, memory_order_relaxed) & b->bit);
}

// Puts a branch that is new into the filter. Returns the same branch, if another thread has put it there meanwhile and
// has added it; else 0. A thread puts a branch there before it adds it. So where the bit was not set, what the chain
// had just before is not this branch.
static uint32_t put_into_filter(struct branch *b)
{
    as_recorder_chains_skip(&as_recorder.branch_chains, &b->chain);
    bool was_there = atomic_fetch_or_explicit(b->filter, b->bit, memory_order_acq_rel) & b->bit;
    return was_there ? find_branch(b) : 0;
}

// Adds a branch with these frames, of which the first has not been found. Only that one is in a chain: the others are found behind it, and
// nobody else can be adding them. Returns the stack with all of them: *fresh. Or with the first alone, *count 1, if another thread has
// added that one meanwhile. 0: there is no room.
static uint32_t add_branch(struct branch *b, const uint64_t *frames, size_t *count, bool *fresh)
{
    prefetch_frames(frames, *count);
    if (!has_room_for(frames, *count))
        return 0;
    uint64_t branch = as_recorder_take_places(&as_recorder.head->stacks, AS_PROFILE_BRANCH_HEAD + *count);
    if (branch == UINT64_MAX)
        return 0;
    uint32_t id = (uint32_t)branch + AS_PROFILE_BRANCH_HEAD;
    as_recorder.stacks[id - 1] = AS_PROFILE_BRANCH_BIT | b->first.caller;
    for (size_t i = 0; i < *count; i++)
        if ((as_recorder.stacks[id + i] = find_or_add_frame(frames[i])) == 0)
            return 0;
    uint32_t added = b->is_new ? put_into_filter(b) : 0;
    if (!added)
        added = ~AS_PROFILE_BRANCH_BIT & as_recorder_chains_add(&as_recorder.branch_chains, &b->chain,
                                                                id | AS_PROFILE_BRANCH_BIT, is_stack, &b->first);
    *fresh = added == id;
    if (*fresh)
        return id + (uint32_t)(*count - 1);
    *count = 1;
    return added;
}

// The place may be one of a branch's head, or not be written yet.
static bool has_frame_if_any(uint32_t stack, uint64_t frame)
{
    uint32_t word = __atomic_load_n(&as_recorder.stacks[stack], __ATOMIC_RELAXED);
    return word != 0 && !(word & AS_PROFILE_BRANCH_BIT) && as_recorder.frames[word] == frame;
}

// What is behind a stack is of its branch, or begins another one, or is not written yet.
static bool is_behind(uint32_t stack, uint64_t frame)
{
    if (stack == 0 || stack + 1 >= as_recorder.head->stacks.size)
        return false;
    return has_frame_if_any(stack + 1, frame);
}

uint32_t as_recorder_find_or_add_stacks(uint32_t caller, const uint64_t *frames, size_t *count, bool *fresh)
{
    struct branch b = {.first = {.frame = frames[0], .caller = caller},
                       .chain = {.used = as_recorder_used(&as_recorder.head->stacks)}};
    uint32_t known = is_behind(caller, frames[0]) ? caller + 1 : 0;
    if (!known) {
        b.chain.hash = (uint32_t)(as_recorder_mix_in(as_recorder_mix_in(0, frames[0]), caller) >> 32);
        as_recorder_chains_prefetch(&as_recorder.branch_chains, &b.chain);
        search_filter(&b);
        known = b.is_new ? 0 : find_branch(&b);
    }
    if (!known)
        return add_branch(&b, frames, count, fresh);
    *count = 1;
    return known;
}

// Another thread may have added the stack just now: what it has written may not be seen yet.
bool as_recorder_has_frames(uint32_t stack, const uint64_t *frames, size_t count)
{
    for (; stack != 0 && count > 0; count--) {
        if (!has_frame_if_any(stack, frames[count - 1]))
            return false;
        stack = as_profile_caller(as_recorder.stacks, stack);
    }
    return stack == 0 && count == 0;
}
