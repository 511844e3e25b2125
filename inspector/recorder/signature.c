// SPDX-License-Identifier: MIT
// A context's signature: the caller of malloc, how deep the stack is, and the words that decide where its next return
// addresses are: the return addresses themselves, and each frame pointer by which a frame was found. The unwinder's
// rules say where they lie, so that equal words mean equal frames: each word says where the next one is. Of a deep
// stack, outer frames follow that have no layout (outer_frames.c). What stands above the last frame is not compared.
//
// All tables are shared, and no lock is taken: a place is written by one store, or checked when it is read.
#include "recorder/hot_path.h"
#include "recorder/stack_memo.h"

#include "unwind/rule.h"

// --- Known signatures -------------------------------------------------------------------------------------------------

// Two places for each context, or four, as long as there are any. An entry does not say in which half it is of twice as
// many: it is put into both, and one gives way. What another thread writes meanwhile may be lost, and is learnt again.
static void grow_signatures(void)
{
    struct as_recorder *r = &as_recorder;
    uint64_t wanted = as_recorder_used(&r->head->contexts) << (r->every ? 2 : 1);
    uint64_t mask = atomic_load_explicit(&r->signature_mask, memory_order_relaxed);
    if (mask >= wanted || mask + 1 >= r->most_signatures ||
        !atomic_compare_exchange_strong(&r->signature_mask, &mask, mask << 1 | 1))
        return;
    for (uint64_t i = 0; i <= mask; i++) {
        uint64_t entry = atomic_load_explicit(&r->signatures[i], memory_order_relaxed);
        if (entry != 0)
            atomic_store_explicit(&r->signatures[mask + 1 + i], entry, memory_order_relaxed);
    }
}

// Where the signature is, or none, or any other one.
static _Atomic uint64_t *place_for(uint64_t signature)
{
    _Atomic uint64_t *places = as_recorder_signature_places(signature), *found = NULL;
    for (unsigned way = 0; way < AS_RECORDER_SIGNATURE_WAYS; way++) {
        uint64_t entry = atomic_load_explicit(&places[way], memory_order_relaxed);
        if (as_recorder_id_in(entry, signature))
            return &places[way];
        if (entry == 0 && !found)
            found = &places[way];
    }
    return found ? found : &places[signature >> AS_PROFILE_ID_BITS & (AS_RECORDER_SIGNATURE_WAYS - 1)];
}

void as_recorder_learn(struct as_recorder_layout *layout, uint64_t signature, uint32_t id)
{
    as_recorder_keep_near(layout, signature, id);
    grow_signatures();
    atomic_store_explicit(place_for(signature), as_recorder_entry(signature, id), memory_order_relaxed);
}

// --- Which words decide -----------------------------------------------------------------------------------------------

struct signing {
    const struct as_unwind_registers *caller;
    uintptr_t end; // of the stack
    uintptr_t sp, fp;
    uintptr_t fp_place; // of the word that fp came from; 0: it still is the register's
    bool has_register;
    uint16_t plain[AS_RECORDER_SIGNATURE], relative[AS_RECORDER_SIGNATURE];
    size_t plain_count, relative_count;
    uint64_t outer; // of the shape
};

static bool find_offset(const struct signing *m, uintptr_t place, uint16_t *offset)
{
    uintptr_t words = (place - m->caller->sp) / sizeof(uintptr_t);
    *offset = (uint16_t)words;
    return place >= m->caller->sp && place % sizeof(uintptr_t) == 0 && words <= AS_MOST_OFFSET &&
           place + sizeof(uintptr_t) <= m->end;
}

static bool add_address(struct signing *m, uintptr_t place)
{
    return m->relative_count < AS_RECORDER_SIGNATURE && find_offset(m, place, &m->relative[m->relative_count++]);
}

// The frame pointer decides where something is.
static bool add_frame_pointer(struct signing *m)
{
    if (m->fp_place)
        return m->fp_place != UINTPTR_MAX && add_address(m, m->fp_place);
    m->has_register = true;
    return true;
}

static bool find_cfa(struct signing *m, uint64_t rule, uintptr_t *cfa)
{
    uintptr_t offset = (uintptr_t)as_unwind_cfa(rule) * sizeof(uintptr_t);
    switch (as_unwind_kind(rule)) {
    case AS_UNWIND_SP:
        *cfa = m->sp + offset;
        return true;
    case AS_UNWIND_FP:
        *cfa = m->fp + offset;
        return add_frame_pointer(m);
    case AS_UNWIND_AT_FP:
        if (!add_frame_pointer(m) || !add_address(m, m->fp + offset))
            return false;
        *cfa = *(const uintptr_t *)(m->fp + offset);
        return true;
    case AS_UNWIND_AT_SP:
        if (!add_address(m, m->sp + offset))
            return false;
        *cfa = *(const uintptr_t *)(m->sp + offset);
        return true;
    default: // what the kernel or ld.so's resolvers leave on the stack is not recognised, but unwound each time
        return false;
    }
}

static bool step(struct signing *m, uint64_t rule, uintptr_t slot)
{
    uintptr_t cfa;
    bool by_fp = rule & AS_UNWIND_FP_BY_FP;
    if (!find_cfa(m, rule, &cfa) || !find_offset(m, slot, &m->plain[m->plain_count++]))
        return false;
    m->sp = cfa;
    int64_t saved = as_unwind_fp(rule);
    if (!by_fp && saved == AS_UNWIND_KEPT)
        return true;
    uintptr_t place = (by_fp ? m->fp : cfa) + (uintptr_t)saved * sizeof(uintptr_t);
    bool readable = saved != AS_UNWIND_LOST && place >= m->caller->sp && place % sizeof(uintptr_t) == 0 &&
                    place + sizeof(uintptr_t) <= m->end;
    m->fp_place = readable ? place : UINTPTR_MAX;
    m->fp = readable ? *(const uintptr_t *)place : 0;
    return true;
}

// Adds the places of a frame that was not found by the stack pointer alone.
static bool add_places(struct signing *m, const struct as_unwind_seen *seen)
{
    bool by_fp = seen->by == AS_UNWIND_FP || seen->by == AS_UNWIND_AT_FP;
    bool at_word = seen->by == AS_UNWIND_AT_FP || seen->by == AS_UNWIND_AT_SP;
    return (by_fp || at_word) && (!by_fp || add_frame_pointer(m)) && (!at_word || add_address(m, seen->sp_place));
}

// The same of frames that the thread's last unwinding has kept, with the kinds of the rules and the places where it has
// read: on the stack, and aligned.
static bool step_all_seen(struct signing *m, const struct as_unwind_last *last, size_t count)
{
    const struct as_unwind_seen *first = &last->frames[AS_UNWIND_MOST - last->count];
    uintptr_t start = m->caller->sp, furthest = 0;
    for (size_t i = 0; i < count; i++) {
        const struct as_unwind_seen *seen = &first[i];
        if (seen->by != AS_UNWIND_SP && !add_places(m, seen))
            return false;
        uintptr_t words = (seen->slot - start) / sizeof words;
        furthest = words > furthest ? words : furthest;
        m->plain[i] = (uint16_t)words;
        m->fp_place = seen->fp_place ? seen->fp_place : m->fp_place;
    }
    m->plain_count = count;
    m->sp = count > 0 ? first[count - 1].sp : start;
    return furthest <= AS_MOST_OFFSET;
}

static bool step_all(struct signing *m, const struct as_recorder_scratch *s, const struct as_unwind_modules *modules,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uintptr_t pc = i > 0 ? s->pcs[i - 1] : m->caller->pc;
        if (!step(m, as_unwind_rule_behind(modules, as_recorder.rows, pc), s->slots[i]))
            return false;
    }
    return true;
}

// Outer frames without offsets: how many they are, and where the first of them begins. The frame pointer goes into the
// signature if it decides where they are.
static bool add_outer(struct signing *m, const struct as_recorder_thread *thread, size_t count)
{
    uintptr_t words = (m->sp - m->caller->sp) / sizeof(uintptr_t);
    const struct as_unwind_seen *first = as_recorder_outer_frame(thread, m->sp);
    if (!first || !thread->before->unwound.is_whole || (first->needs_fp && !add_frame_pointer(m)) ||
        words >> AS_SHAPE_OUTER_BITS || count >> AS_SHAPE_OUTER_BITS)
        return false;
    m->outer = (uint64_t)count << AS_SHAPE_OUTER_SHIFT | (uint64_t)words << AS_SHAPE_BOUNDARY_SHIFT;
    return true;
}

// What is left of the groups has the last offset again. `seed` takes in the groups.
static void pack(struct as_recorder_layout *layout, unsigned kind, size_t filled, const uint16_t *offsets, size_t count,
                 uint64_t *seed)
{
    for (size_t i = 0; i < filled; i++) {
        uint64_t group = 0;
        for (size_t lane = AS_LANES; lane-- > 0;) {
            size_t at = i * AS_LANES + lane;
            group = group << AS_LANE_BITS | offsets[at < count ? at : count - 1];
        }
        layout->groups[i / AS_RECORDER_INNER_GROUPS][kind][i % AS_RECORDER_INNER_GROUPS] = group;
        *seed = as_recorder_mix_in(*seed, group);
    }
}

static struct as_recorder_layout layout_for(uint64_t key, const struct signing *m)
{
    struct as_recorder_layout layout = {.key = key};
    size_t frames = (m->relative_count + AS_LANES - 1) / AS_LANES;
    bool more = m->plain_count > AS_RECORDER_INNER_SIGNATURE;
    uint64_t shape = frames | (m->plain_count > 0 ? AS_SHAPE_FRAMES : 0) | (more ? AS_SHAPE_MORE : 0) |
                     (m->has_register ? AS_SHAPE_REGISTER : 0) | m->outer;
    uint64_t seed = as_recorder_mix_in(0, shape);
    if (m->plain_count > 0)
        pack(&layout, AS_LAYOUT_ADDRESSES, more ? AS_RECORDER_GROUPS : AS_RECORDER_INNER_GROUPS, m->plain,
             m->plain_count, &seed);
    pack(&layout, AS_LAYOUT_FRAMES, frames, m->relative, m->relative_count, &seed);
    layout.shape = shape;
    layout.seed = seed;
    return layout;
}

// How many return addresses decide. Among interpreted frames, those up to the call that runs one of these: which C
// functions are between two of them, their instructions do not say.
static size_t frames_to_sign(const struct as_inner_walk *walk, const uintptr_t *ends, size_t count)
{
    if (atomic_load_explicit(&as_recorder.signs_all, memory_order_relaxed) || as_python_is_hidden())
        return count;
    if (!walk || walk->count == 0)
        return count < AS_RECORDER_SIGNATURE ? count : AS_RECORDER_SIGNATURE;
    if (count <= AS_RECORDER_INNER_SIGNATURE)
        return count;
    size_t decide = AS_RECORDER_INNER_SIGNATURE, i = 0;
    while (i < walk->count && walk->frames[i].place < ends[decide - 1])
        i++;
    while (i < walk->count && decide < count && ends[decide] <= walk->frames[i].place)
        decide++;
    return decide;
}

uint64_t as_recorder_make_signature(const struct as_recorder_thread *thread, uint64_t key,
                                    const struct as_unwind_modules *modules, const struct as_unwind_registers *caller,
                                    uintptr_t depth, uint64_t inner, const struct as_inner_walk *walk, size_t count,
                                    struct as_recorder_layout **kept)
{
    const struct as_recorder_scratch *s = &as_recorder.scratch[thread->index];
    struct signing m = {.caller = caller, .end = caller->sp + depth, .sp = caller->sp, .fp = caller->fp};
    const struct as_unwind_last *last = thread->before ? &thread->before->unwound : NULL;
    bool seen = last && last->is_whole && last->count == count;
    count = frames_to_sign(walk, s->ends, count);
    size_t own = count < AS_RECORDER_SIGNATURE ? count : AS_RECORDER_SIGNATURE;
    if (!(seen ? step_all_seen(&m, last, own) : step_all(&m, s, modules, own)))
        return 0;
    if (count > AS_RECORDER_SIGNATURE && !add_outer(&m, thread, count - AS_RECORDER_SIGNATURE))
        return 0;
    struct as_recorder_layout layout = layout_for(key, &m);
    uint64_t signature = as_recorder_signature(thread, key, &layout, caller, depth, inner);
    if (signature)
        *kept = as_recorder_keep_layout(&layout);
    return signature;
}
