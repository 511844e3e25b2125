// SPDX-License-Identifier: MIT
// Which contexts a thread keeps, and for how long.
#include "recorder/context_memo.h"

#include <string.h>

// One in so many: what comes again and again is kept soon, and a context that does not costs little. One that is there,
// outdated, is renewed at once.
enum { KEEP = 4 };

// A snapshot by the layouts of one caller and depth.
struct used_layout {
    uint64_t key, inner;
    uint64_t signatures[AS_LAYOUT_WAYS]; // by each layout; 0: there is none
    struct as_recorder_layout *layouts[AS_LAYOUT_WAYS];
    struct as_recorder_layout *by; // the context was found by this one,
    uint64_t signature;            // and has this signature
};

// What was left of a group has the last offset again.
static bool add_word(struct as_recorder_recent *r, uint16_t offset)
{
    if (r->words > 0 && r->offsets[r->words - 1] == offset)
        return true;
    if (r->words == AS_RECENT_WORDS)
        return false;
    r->offsets[r->words] = offset;
    r->values[r->words++] = (uint32_t)((const uintptr_t *)r->sp)[offset];
    return true;
}

static bool add_group(struct as_recorder_recent *r, uint64_t group)
{
    for (unsigned lane = 0; lane < AS_LANES; lane++)
        if (!add_word(r, (uint16_t)(group >> AS_LANE_BITS * lane)))
            return false;
    return true;
}

static bool add_stack(struct as_recorder_recent *r, const struct as_recorder_layout *layout)
{
    uint64_t shape = layout->shape;
    r->words = 0;
    r->by_fp = shape & AS_SHAPE_REGISTER;
    size_t groups = shape & AS_SHAPE_MORE ? AS_RECORDER_GROUPS : AS_RECORDER_INNER_GROUPS;
    for (size_t i = 0; (shape & AS_SHAPE_FRAMES) && i < groups; i++)
        if (!add_group(r, *as_recorder_group(layout, AS_LAYOUT_ADDRESSES, i)))
            return false;
    for (size_t i = 0; i < (shape & AS_SHAPE_COUNT); i++)
        if (!add_group(r, *as_recorder_group(layout, AS_LAYOUT_FRAMES, i)))
            return false;
    for (; r->words > 0 && r->words % AS_RECENT_STEP != 0; r->words++) { // so many are compared together
        r->offsets[r->words] = r->offsets[0];
        r->values[r->words] = r->values[0];
    }
    return r->words > 0;
}

// Another thread may write a layout while it is copied: what comes of the copy must be the signature that was found.
static bool copy_layout(struct as_recorder_layout *copy, const struct used_layout *l,
                        const struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                        uintptr_t depth)
{
    const struct as_recorder_layout *layout = l->by;
    copy->key = atomic_load_explicit(&layout->key, memory_order_acquire);
    copy->shape = atomic_load_explicit(&layout->shape, memory_order_relaxed);
    copy->seed = atomic_load_explicit(&layout->seed, memory_order_relaxed);
    as_recorder_copy_groups(copy, layout);
    return (copy->shape & AS_SHAPE_COUNT) <= AS_RECORDER_GROUPS && copy->shape >> AS_SHAPE_OUTER_SHIFT == 0 &&
           as_recorder_signature(thread, copy->key, copy, caller, depth, l->inner) == l->signature;
}

// The context's own place, if it was kept with another version; NULL: there is none.
static struct as_recorder_recent *find_outdated(struct as_recorder_recent *set, const struct as_recorder_recent *fresh)
{
    for (struct as_recorder_recent *r = set; r < set + AS_RECENT_WAYS; r++)
        if (r->id == fresh->id && r->sp == fresh->sp && r->version != fresh->version)
            return r;
    return NULL;
}

// A place for another context; NULL: all places have contexts that are found again and again. One of these loses a point of its score.
static struct as_recorder_recent *find_place(struct as_recorder_recent *set, uint64_t version)
{
    struct as_recorder_recent *least = set;
    for (struct as_recorder_recent *r = set; r < set + AS_RECENT_WAYS; r++) {
        if (r->sp == 0 || r->version != version)
            return r;
        if (r->score < least->score)
            least = r;
    }
    if (least->score == 0)
        return least;
    least->score--;
    return NULL;
}

// NULL: the context is not to be kept now. A renewed entry loses a point, too, and without one it is not renewed before it is due.
static struct as_recorder_recent *find_place_now(struct as_recorder_recent *set, struct as_recorder_recent *fresh,
                                                 bool due)
{
    struct as_recorder_recent *known = find_outdated(set, fresh);
    if (known && known->score > 0)
        fresh->score = known->score - 1;
    else if (!due)
        return NULL;
    return known ? known : find_place(set, fresh->version);
}

// Right after the walk of its interpreted frames. Not inline, so that recognising takes no more of the stack than it has to.
static __attribute__((noinline)) void keep(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                                           const struct used_layout *l, uint32_t id, bool due)
{
    struct as_recorder_last *last = thread->before;
    struct as_recorder_layout copy;
    struct as_recorder_recent fresh = {.sp = caller->sp, .pc = caller->pc, .fp = caller->fp, .id = id};
    uint64_t hash;
    bool python = last && last->python.depth > 0 && atomic_load_explicit(&as_python.found, memory_order_acquire);
    // An entry has no outer frames: no other one loses a point for it.
    if (!last || atomic_load_explicit(&l->by->shape, memory_order_relaxed) >> AS_SHAPE_OUTER_SHIFT != 0 ||
        !(python ? as_python_keep_recent(thread, caller, &fresh, &hash)
                 : as_cruby_keep_recent(thread, caller, &fresh, &hash)))
        return;
    struct as_recorder_recent *there = find_place_now(as_recent_at(last, hash), &fresh, due);
    if (!there || !copy_layout(&copy, l, thread, caller, thread->high - caller->sp) || !add_stack(&fresh, &copy))
        return;
    there->sp = 0;
    atomic_signal_fence(memory_order_seq_cst);
    fresh.sp = 0;
    *there = fresh;
    atomic_signal_fence(memory_order_seq_cst);
    there->sp = caller->sp;
}

// A line of the processor's own cache for the contexts of a thread: the table of all is larger than what is kept near.
static uint64_t *line_for(struct as_recorder_thread *thread, uint64_t key, uint64_t inner)
{
    return thread->before && as_recorder.every
               ? thread->before->lines[(key ^ inner) * AS_RECORDER_FACTOR >> (64 - AS_RECORDER_LINE_BITS)]
               : NULL;
}

static uint32_t accept_context(struct used_layout *l, unsigned way, uint32_t id)
{
    atomic_thread_fence(memory_order_acquire);
    if (!id || atomic_load_explicit(&l->layouts[way]->key, memory_order_relaxed) != l->key)
        return 0;
    l->by = l->layouts[way];
    l->signature = l->signatures[way];
    return id;
}

// As as_recorder_recognise(), in the line by all layouts first. What is searched for elsewhere is on its way meanwhile.
static uint32_t find_in_line(struct used_layout *l, uint64_t *line, const struct as_recorder_thread *thread,
                             const struct as_unwind_registers *caller, uintptr_t depth)
{
    _Atomic uint64_t *layouts = as_recorder_layout_line(l->key);
    unsigned first = AS_LAYOUT_WAYS;
    as_recorder_fetch_layouts(layouts, 0, l->key);
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++) {
        struct as_recorder_layout *layout = as_recorder_layout_for(layouts, way, l->key);
        uint64_t signature = layout ? as_recorder_signature(thread, l->key, layout, caller, depth, l->inner) : 0;
        l->layouts[way] = layout;
        if ((l->signatures[way] = signature) == 0)
            continue;
        first = first < way ? first : way;
        uint32_t id = accept_context(l, way, as_recorder_id_in(*as_recorder_place_in(line, signature), signature));
        if (id)
            return id;
        if (as_recorder_is_other(layout, signature))
            __builtin_prefetch((void *)as_recorder_signature_places(signature));
    }
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++) {
        uint32_t id =
            l->signatures[way] ? accept_context(l, way, as_recorder_known_by(l->layouts[way], l->signatures[way])) : 0;
        if (!id)
            continue;
        *as_recorder_place_in(line, l->signature) = as_recorder_entry(l->signature, id);
        if (way != first && as_recorder_is_alone())
            as_recorder_swap(&layouts[first], &layouts[way]);
        return id;
    }
    return 0;
}

uint32_t as_recorder_recognise_with_inner(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                                          struct as_recorder_attempt *attempt)
{
    uintptr_t depth = thread->high - caller->sp;
    uint64_t inner = 0, key = as_recorder_key(caller, depth);
    __builtin_prefetch(as_recorder_layout_line(key)); // for what follows the snapshot of the frames
    attempt->recognisable = as_recorder_inner(thread, caller->sp, attempt->same, NULL, &inner);
    attempt->inner = inner;
    if (!attempt->recognisable)
        return 0;
    uint64_t *line = line_for(thread, key, inner);
    struct used_layout l;
    l.key = key;
    l.inner = inner ^ as_recorder_mark(thread);
    __builtin_prefetch(line);
    uint32_t id = line ? find_in_line(&l, line, thread, caller, depth)
                       : as_recorder_recognise(thread, key, caller, depth, l.inner, &l.signature, &l.by);
    bool due = thread->hits % KEEP == 0;
    if (id && inner && as_recorder.every && (due || attempt->outdated))
        keep(thread, caller, &l, id, due);
    return id;
}

void as_recorder_forget_recent(const struct as_recorder_thread *thread)
{
    struct as_recorder_last *last = thread->before;
    if (!last || !as_recorder.every || !as_recorder_has_interpreter())
        return;
    memset(last->recent, 0, sizeof last->recent);
    memset(last->lines, 0, sizeof last->lines);
}
