// SPDX-License-Identifier: MIT
// The layouts of stacks, which are found by their callers: lines of a processor's cache with places of what lies close together, so
// that where to read costs one line, and what to read another. No lock is taken: a layout is checked when it is read.
#include "recorder/hot_path.h"

// No reader believes in a half: the key comes last.
static void put_layout(struct as_recorder_layout *place, const struct as_recorder_layout *layout)
{
    atomic_store_explicit(&place->key, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    as_recorder_copy_groups(place, layout);
    for (size_t i = 0; i < AS_LAYOUT_NEAR; i++)
        atomic_store_explicit(&place->near[i], 0, memory_order_relaxed);
    atomic_store_explicit(&place->others, 0, memory_order_relaxed);
    atomic_store_explicit(&place->shape, layout->shape, memory_order_relaxed);
    atomic_store_explicit(&place->seed, layout->seed, memory_order_relaxed);
    atomic_store_explicit(&place->key, layout->key, memory_order_release);
}

static uint64_t key_at(uint64_t entry)
{
    return entry ? atomic_load_explicit(&as_recorder_layout_in(entry)->key, memory_order_relaxed) : 0;
}

// Twice as many lines, where half of the places are taken: a small program touches little memory. What is no longer searched for where it
// was moves to its line in the new half; what another thread writes meanwhile may be lost, and is learnt again.
static void grow_layouts(void)
{
    struct as_recorder *r = &as_recorder;
    uint64_t mask = atomic_load_explicit(&r->layout_mask, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&r->layouts_taken, memory_order_relaxed);
    taken = taken < r->most_layouts ? taken : r->most_layouts;
    if (2 * taken <= (mask + 1) * AS_LAYOUT_WAYS ||
        !atomic_compare_exchange_strong(&r->layout_mask, &mask, mask << 1 | 1))
        return;
    const uint64_t half = mask + 1;
    for (uint64_t i = 0; i < half * AS_LAYOUT_WAYS; i++) {
        _Atomic uint64_t *there = &r->layout_lines[0][0] + i;
        uint64_t entry = atomic_load_explicit(there, memory_order_relaxed);
        if (!(key_at(entry) >> AS_LAYOUT_LINE_SHIFT & half))
            continue;
        atomic_store_explicit(there + half * AS_LAYOUT_WAYS, entry, memory_order_relaxed);
        atomic_store_explicit(there, 0, memory_order_relaxed);
    }
}

// A place for the layout in its line: where none is, or one whose layout has been written over, or one of those that come last.
static _Atomic uint64_t *place_for(uint64_t key, uint64_t index)
{
    _Atomic uint64_t *line = as_recorder_layout_line(key);
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++) {
        uint64_t entry = atomic_load_explicit(&line[way], memory_order_relaxed);
        if (entry == 0 || as_recorder_layout_entry(key_at(entry), 0) != as_recorder_layout_entry(entry, 0))
            return &line[way];
    }
    return &line[AS_LAYOUT_WAYS / 2 + index % (AS_LAYOUT_WAYS / 2)];
}

struct as_recorder_layout *as_recorder_keep_layout(const struct as_recorder_layout *layout)
{
    const uint64_t key = layout->key;
    const _Atomic uint64_t *line = as_recorder_layout_line(key);
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++) {
        struct as_recorder_layout *there = as_recorder_layout_for(line, way, key);
        if (there && atomic_load_explicit(&there->seed, memory_order_relaxed) == layout->seed)
            return there;
    }
    uint64_t index =
        atomic_fetch_add_explicit(&as_recorder.layouts_taken, 1, memory_order_relaxed) % as_recorder.most_layouts;
    struct as_recorder_layout *fresh = &as_recorder.layouts[index];
    put_layout(fresh, layout);
    grow_layouts();
    atomic_store_explicit(place_for(key, index), as_recorder_layout_entry(key, index), memory_order_release);
    return fresh;
}
