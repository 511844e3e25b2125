// SPDX-License-Identifier: MIT
// What each allocation passes through, inline: some 2 ns where nothing is written down, and some 15 ns where a context is recognised. All
// that needs more is done by functions of recorder.h.
#pragma once

#include "recorder/recorder.h"

// --- Whether to write -------------------------------------------------------------------------------------------------

enum { AS_RECORDER_PROBES = 16 }; // places at which a thread's state may lie

static inline size_t as_recorder_thread_place(uintptr_t pointer)
{
    enum { BITS = 12 };
    _Static_assert(AS_RECORDER_THREADS == 1 << BITS, "the hash's upper bits");
    return pointer * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BITS);
}

static inline struct as_recorder_thread *as_recorder_thread_at(uintptr_t pointer)
{
    struct as_recorder_thread *t = &as_recorder.threads[as_recorder_thread_place(pointer)];
    return __builtin_expect(atomic_load_explicit(&t->pointer, memory_order_relaxed) == pointer, 1)
               ? t
               : as_recorder_thread_find(pointer);
}

// Whether it is another thread, at the same address, than the one that was named: in a child of fork(), too. The profile is not over:
// what was another thread's state may lead to memory that is not there any more.
static inline bool as_recorder_is_another(const struct as_recorder_thread *thread)
{
    const volatile uint32_t *at = __atomic_load_n(&thread->tid_at, __ATOMIC_RELAXED); // NULL: it is being made, or over
    return at && *at != thread->tid;
}

// What makes the signatures of one thread others than those of the next.
static inline uint64_t as_recorder_mark(const struct as_recorder_thread *thread)
{
    return thread->name * UINT64_C(0xd1342543de82ef95);
}

static inline bool as_recorder_is_watched(uintptr_t chunk)
{
    return as_recorder.all_pages || as_profile_page_hash(chunk >> as_recorder_page_shift()) <= as_recorder.watched;
}

// With memory tagging (aarch64's MTE) malloc's pointers have a tag in their top byte; its headers, and what the tables
// say of addresses, have none.
static inline void *as_recorder_untagged(void *memory)
{
#if defined(__aarch64__)
    return (void *)((uintptr_t)memory & (UINT64_MAX >> 8));
#else
    return memory;
#endif
}

// By malloc's header: the chunk is ours.
static inline uint64_t as_recorder_size_of(uintptr_t chunk)
{
    return ((const uint64_t *)chunk)[1] & ~UINT64_C(7);
}

// Its header says so, which is not read where what was asked for decides: it may be on another line of the processor's cache.
static inline bool as_recorder_may_be_large(const void *memory, size_t size, size_t alignment)
{
    return alignment ? as_recorder_size_of((uintptr_t)memory - 16) >= as_recorder.large
                     : size + as_recorder_rounding() >= as_recorder.large;
}

// Whether the allocation may have to be written down. A thread without a state has to get one first. `alignment`: 0 if none was asked for.
static inline bool as_recorder_wants(struct as_recorder_thread *thread, const void *memory, size_t size,
                                     size_t alignment)
{
    return !thread || (thread->until -= (int64_t)size) <= 0 || as_recorder_is_watched((uintptr_t)memory - 16) ||
           as_recorder_may_be_large(memory, size, alignment);
}

// --- Into the recorder, and out ------------------------------------------------------------------------------------------

static inline bool as_recorder_enter(struct as_recorder_thread *thread, uintptr_t sp)
{
    uintptr_t busy = atomic_load_explicit(&thread->busy, memory_order_relaxed);
    if (__builtin_expect(busy != 0, 0) && !as_recorder_was_left(thread, busy, sp))
        return false;
    atomic_store_explicit(&thread->busy, sp, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

// Between the hook's check and entering the profile may have ended, and another may have begun.
static inline bool as_recorder_is_over(const struct as_recorder_thread *thread)
{
    return !atomic_load_explicit(&as_recorder.on, memory_order_relaxed) ||
           atomic_load_explicit(&thread->pointer, memory_order_relaxed) != as_recorder_pointer();
}

static inline void as_recorder_leave(struct as_recorder_thread *thread)
{
    atomic_store_explicit(&thread->busy, 0, memory_order_release);
}

// --- The slot of a chunk ----------------------------------------------------------------------------------------------

static inline _Atomic uint32_t *as_recorder_slots_in(uint64_t entry)
{
    uint64_t block = (entry & ((UINT64_C(1) << AS_PROFILE_BLOCK_BITS) - 1)) - 1;
    return (_Atomic uint32_t *)(as_recorder.blocks + (block << as_recorder.block_shift));
}

static inline size_t as_recorder_slot_on_page(uintptr_t chunk)
{
    return (chunk & ((UINT64_C(1) << as_recorder_page_shift()) - 1)) >> AS_PROFILE_SLOT_SHIFT;
}

// NULL: the page has none at the first place where it would be. Once it has one, it has it until the profile is over,
// and so is the thread's state: the next chunk is on the same page, as a rule.
static inline _Atomic uint32_t *as_recorder_slot_at(struct as_recorder_thread *thread, uintptr_t chunk)
{
    uint64_t page = chunk >> as_recorder_page_shift();
    if (page == thread->page)
        return thread->slots + as_recorder_slot_on_page(chunk);
    uint64_t place = as_profile_place(page, as_recorder.page_run, as_recorder.page_mask);
    uint64_t entry = atomic_load_explicit(&as_recorder.pages[place], memory_order_acquire);
    if (entry >> AS_PROFILE_BLOCK_BITS != page || entry == 0)
        return NULL;
    thread->page = 0; // until both are of the same page
    atomic_signal_fence(memory_order_seq_cst);
    thread->slots = as_recorder_slots_in(entry);
    atomic_signal_fence(memory_order_seq_cst);
    thread->page = page;
    return thread->slots + as_recorder_slot_on_page(chunk);
}

// --- Recognising ------------------------------------------------------------------------------------------------------

// Offsets of a layout: words above the stack pointer, four to a group and 16 bits each. The shape: how many groups of
// frame pointers there are, whether there are return addresses, and in all groups, and whether the frame pointer's
// register counts. And how many outer frames there are besides, without offsets (outer_frames.c), and where the first
// of them begins.
enum { AS_LANES = 4, AS_LANE_BITS = 16, AS_MOST_OFFSET = 0x7fff };
enum { AS_SHAPE_COUNT = 15, AS_SHAPE_FRAMES = 16, AS_SHAPE_MORE = 32, AS_SHAPE_REGISTER = 64 };
enum { AS_SHAPE_OUTER_SHIFT = 16, AS_SHAPE_BOUNDARY_SHIFT = 32, AS_SHAPE_OUTER_BITS = 16 };
_Static_assert((int)AS_RECORDER_GROUPS <= (int)AS_SHAPE_COUNT, "a shape has their number");
#define AS_EACH_LANE UINT64_C(0x0001000100010001)
#define AS_TOP_BITS (AS_EACH_LANE << (AS_LANE_BITS - 1))

static inline uint64_t as_recorder_mix_in(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 29;
}

// By which a context is searched for. New stacks lie together, and so do the heads of their contexts: in few lines of a
// processor's cache. Stacks at regular distances have heads all over the table.
static inline uint32_t as_recorder_context_hash(uint32_t stack, uint32_t who)
{
    enum { BLOCK_BITS = 8, STEP_BITS = 2 };
    uint64_t block = as_recorder_mix_in(as_recorder_mix_in(0, stack >> BLOCK_BITS), who);
    return (uint32_t)(block >> 32) + ((stack & ((1U << BLOCK_BITS) - 1)) >> STEP_BITS);
}

static inline uint64_t as_recorder_key(const struct as_unwind_registers *caller, uintptr_t depth)
{
    uint64_t epoch = atomic_load_explicit(&as_recorder.epoch, memory_order_relaxed);
    return as_recorder_mix_in(as_recorder_mix_in(epoch, caller->pc), depth);
}

// An entry: 40 bits of the signature, and the context's id. 0: it is not the signature's.
static inline uint32_t as_recorder_id_in(uint64_t entry, uint64_t signature)
{
    return (entry ^ signature) >> AS_PROFILE_ID_BITS ? 0 : entry & ((1U << AS_PROFILE_ID_BITS) - 1);
}

static inline uint64_t as_recorder_entry(uint64_t signature, uint32_t id)
{
    return signature >> AS_PROFILE_ID_BITS << AS_PROFILE_ID_BITS | id;
}

// Where it may be among all signatures.
static inline _Atomic uint64_t *as_recorder_signature_places(uint64_t signature)
{
    uint64_t mask = atomic_load_explicit(&as_recorder.signature_mask, memory_order_relaxed);
    return &as_recorder.signatures[signature & mask & ~(uint64_t)(AS_RECORDER_SIGNATURE_WAYS - 1)];
}

// The context of a signature, AS_PROFILE_LOST where there was no room for one; 0: it is not known.
static inline uint32_t as_recorder_known(uint64_t signature)
{
    const _Atomic uint64_t *places = as_recorder_signature_places(signature);
    for (unsigned way = 0; way < AS_RECORDER_SIGNATURE_WAYS; way++) {
        uint32_t id = as_recorder_id_in(atomic_load_explicit(&places[way], memory_order_relaxed), signature);
        if (id)
            return id;
    }
    return 0;
}

// Entries of a thread's own, in lines of a processor's cache (stack_memo.h). Where such a line has a signature's.
enum { AS_RECORDER_LINE = 8, AS_RECORDER_LINE_BITS = 10 };
static inline uint64_t *as_recorder_place_in(uint64_t *line, uint64_t signature)
{
    return &line[signature & (AS_RECORDER_LINE - 1)];
}

// An entry of a line: 48 bits of the key, and the layout's index + 1. 0: there is none.
enum { AS_LAYOUT_INDEX_BITS = 16, AS_LAYOUT_LINE_SHIFT = 8 };
_Static_assert(AS_RECORDER_LAYOUTS < 1 << AS_LAYOUT_INDEX_BITS, "an entry has the index of each");

static inline uint64_t as_recorder_layout_entry(uint64_t key, uint64_t index)
{
    return key >> AS_LAYOUT_INDEX_BITS << AS_LAYOUT_INDEX_BITS | (index + 1);
}

static inline struct as_recorder_layout *as_recorder_layout_in(uint64_t entry)
{
    return &as_recorder.layouts[(entry & ((1U << AS_LAYOUT_INDEX_BITS) - 1)) - 1];
}

static inline _Atomic uint64_t *as_recorder_layout_line(uint64_t key)
{
    uint64_t mask = atomic_load_explicit(&as_recorder.layout_mask, memory_order_relaxed);
    return as_recorder.layout_lines[key >> AS_LAYOUT_LINE_SHIFT & mask];
}

// NULL: the place is another key's.
static inline struct as_recorder_layout *as_recorder_layout_for(const _Atomic uint64_t *line, unsigned way,
                                                                uint64_t key)
{
    uint64_t entry = atomic_load_explicit(&line[way], memory_order_acquire);
    if ((entry ^ key) >> AS_LAYOUT_INDEX_BITS || entry == 0)
        return NULL;
    struct as_recorder_layout *layout = as_recorder_layout_in(entry);
    return atomic_load_explicit(&layout->key, memory_order_acquire) == key ? layout : NULL;
}

static inline const _Atomic uint64_t *as_recorder_group(const struct as_recorder_layout *layout, unsigned kind,
                                                        size_t i)
{
    return &layout->groups[i / AS_RECORDER_INNER_GROUPS][kind][i % AS_RECORDER_INNER_GROUPS];
}

static inline void as_recorder_copy_groups(struct as_recorder_layout *to, const struct as_recorder_layout *from)
{
    _Atomic uint64_t *group = &to->groups[0][0][0];
    const _Atomic uint64_t *there = &from->groups[0][0][0];
    for (size_t i = 0; i < sizeof from->groups / sizeof *there; i++)
        atomic_store_explicit(&group[i], atomic_load_explicit(&there[i], memory_order_relaxed), memory_order_relaxed);
}

static inline _Atomic uint64_t *as_recorder_near(struct as_recorder_layout *layout, uint64_t signature)
{
    return &layout->near[signature & (AS_LAYOUT_NEAR - 1)];
}

// Four words at a time, each in a lane of its own, so that no multiplication waits for the one before.
struct as_recorder_lanes {
    uint64_t a, b, c, d;
};

#define AS_RECORDER_FACTOR UINT64_C(0x9fb21c651e98df25)

static inline uintptr_t as_recorder_word(uintptr_t stack, uint64_t group, unsigned lane)
{
    uint64_t offset = group >> AS_LANE_BITS * lane & ((1U << AS_LANE_BITS) - 1);
    return *(const uintptr_t *)(stack + offset * sizeof(uintptr_t));
}

// False: it leads out of the stack. The offsets are checked as they were read, as another thread may write the layout.
static inline bool as_recorder_add_group(struct as_recorder_lanes *l, const _Atomic uint64_t *offsets, uintptr_t depth,
                                         uintptr_t stack, uintptr_t base)
{
    uint64_t words = depth / sizeof(uintptr_t);
    uint64_t last = AS_TOP_BITS | (words > AS_MOST_OFFSET ? AS_MOST_OFFSET : words - 1) * AS_EACH_LANE;
    uint64_t group = atomic_load_explicit(offsets, memory_order_relaxed);
    if (words == 0 || ((last - group) & AS_TOP_BITS) != AS_TOP_BITS) // a lane is more than the last word
        return false;
    l->a = l->a * AS_RECORDER_FACTOR + as_recorder_word(stack, group, 0) - base;
    l->b = l->b * AS_RECORDER_FACTOR + as_recorder_word(stack, group, 1) - base;
    l->c = l->c * AS_RECORDER_FACTOR + as_recorder_word(stack, group, 2) - base;
    l->d = l->d * AS_RECORDER_FACTOR + as_recorder_word(stack, group, 3) - base;
    return true;
}

static inline bool as_recorder_add_addresses(struct as_recorder_lanes *l, const _Atomic uint64_t *groups,
                                             uintptr_t depth, const struct as_unwind_registers *caller)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < AS_RECORDER_INNER_GROUPS; i++)
        if (!as_recorder_add_group(l, &groups[i], depth, caller->sp, 0))
            return false;
    return true;
}

static inline uint64_t as_recorder_finish(const struct as_recorder_lanes *l, uint64_t rest)
{
    uint64_t sum = l->a * UINT64_C(0xd6e8feb86659fd93) + l->b * UINT64_C(0xa0761d6478bd642f) +
                   l->c * UINT64_C(0xe7037ed1a0b428db) + l->d * UINT64_C(0x8ebc6af09c88c6e3);
    return as_recorder_mix_in(sum ^ sum >> 32, rest);
}

// 0: it does not fit into the stack, or outer frames that belong to it are not known. The layout's seed says where the words are: the same
// words
// elsewhere are another signature, and so is a layout that two threads wrote at the same time.
static inline uint64_t as_recorder_signature(const struct as_recorder_thread *thread, uint64_t key,
                                             const struct as_recorder_layout *layout,
                                             const struct as_unwind_registers *caller, uintptr_t depth, uint64_t inner)
{
    uint64_t shape = atomic_load_explicit(&layout->shape, memory_order_relaxed);
    uint64_t seed = atomic_load_explicit(&layout->seed, memory_order_relaxed);
    struct as_recorder_lanes l = {0};
    if (__builtin_expect(shape & AS_SHAPE_FRAMES, 1) &&
        !as_recorder_add_addresses(&l, layout->groups[0][AS_LAYOUT_ADDRESSES], depth, caller))
        return 0;
    if ((shape & AS_SHAPE_MORE) &&
        !as_recorder_add_addresses(&l, layout->groups[1][AS_LAYOUT_ADDRESSES], depth, caller))
        return 0;
    for (size_t i = 0; i < (shape & AS_SHAPE_COUNT); i++)
        if (!as_recorder_add_group(&l, as_recorder_group(layout, AS_LAYOUT_FRAMES, i), depth, caller->sp, caller->sp))
            return 0;
    if (shape & AS_SHAPE_REGISTER)
        seed = as_recorder_mix_in(seed, caller->fp - caller->sp);
    uint64_t signature = as_recorder_finish(&l, (key + seed) ^ inner);
    return __builtin_expect(shape >> AS_SHAPE_OUTER_SHIFT == 0, 1)
               ? signature
               : as_recorder_outer_signature(thread, shape, caller, signature);
}

// Threads would take lines from each other, as each has contexts of its own: only one that is alone brings nearer what is found.
static inline bool as_recorder_is_alone(void)
{
    return !atomic_load_explicit(&as_recorder.threaded, memory_order_relaxed);
}

// Whether the context may be among all signatures, and not near the layout. Of 64 bits one is its own, by what an entry has of the
// signature.
static inline uint64_t as_recorder_other_bit(uint64_t signature)
{
    return UINT64_C(1) << (signature >> 58);
}

static inline bool as_recorder_is_other(const struct as_recorder_layout *layout, uint64_t signature)
{
    return atomic_load_explicit(&layout->others, memory_order_relaxed) & as_recorder_other_bit(signature);
}

// Keeps the context of a signature near its layout; another one may no longer be near. (A bit that another thread writes meanwhile may be
// lost: its context is learnt again.)
static inline void as_recorder_keep_near(struct as_recorder_layout *layout, uint64_t signature, uint32_t id)
{
    _Atomic uint64_t *near = as_recorder_near(layout, signature);
    uint64_t there = atomic_load_explicit(near, memory_order_relaxed);
    // Each allocation of this layout reads the bits: they are written once.
    if (there != 0 && !as_recorder_id_in(there, signature) && !as_recorder_is_other(layout, there)) {
        uint64_t others = atomic_load_explicit(&layout->others, memory_order_relaxed);
        atomic_store_explicit(&layout->others, others | as_recorder_other_bit(there), memory_order_relaxed);
    }
    atomic_store_explicit(near, as_recorder_entry(signature, id), memory_order_relaxed);
}

// The context that is near the layout, or among all: 0 where it is not known to be of this layout.
static inline uint32_t as_recorder_known_by(struct as_recorder_layout *layout, uint64_t signature)
{
    const _Atomic uint64_t *near = as_recorder_near(layout, signature);
    uint32_t id = as_recorder_id_in(atomic_load_explicit(near, memory_order_relaxed), signature);
    if (id || !as_recorder_is_other(layout, signature) || !(id = as_recorder_known(signature)))
        return id;
    if (as_recorder_is_alone())
        as_recorder_keep_near(layout, signature, id);
    return id;
}

static inline void as_recorder_swap(_Atomic uint64_t *a, _Atomic uint64_t *b)
{
    uint64_t there = atomic_load_explicit(a, memory_order_relaxed);
    atomic_store_explicit(a, atomic_load_explicit(b, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(b, there, memory_order_relaxed);
}

// All that a signature by these layouts reads: of a new stack each is inspected in vain, and one after another would take as long as all of
// that.
static inline void as_recorder_fetch_layouts(const _Atomic uint64_t *layouts, unsigned from, uint64_t key)
{
    for (unsigned way = from; way < AS_LAYOUT_WAYS; way++) {
        uint64_t entry = atomic_load_explicit(&layouts[way], memory_order_relaxed);
        if ((entry ^ key) >> AS_LAYOUT_INDEX_BITS || entry == 0)
            continue;
        const struct as_recorder_layout *layout = as_recorder_layout_in(entry);
        __builtin_prefetch(layout);
        for (size_t part = 0; part < AS_LAYOUT_PARTS; part++)
            __builtin_prefetch(layout->groups[part]);
    }
}

// Several layouts may have one key, as frames further out differ: the one that was right the last time comes first.
// Another thread may write the layout meanwhile: then the key is another one, before or after.
// `inner` is of the interpreter's frames: C functions alone do not make a context. *by: the layout by which it was recognised.
static inline uint32_t as_recorder_recognise(const struct as_recorder_thread *thread, uint64_t key,
                                             const struct as_unwind_registers *caller, uintptr_t depth, uint64_t inner,
                                             uint64_t *signature, struct as_recorder_layout **by)
{
    _Atomic uint64_t *layouts = as_recorder_layout_line(key);
    unsigned first = AS_LAYOUT_WAYS;
    for (unsigned way = 0; way < AS_LAYOUT_WAYS; way++) {
        struct as_recorder_layout *layout = as_recorder_layout_for(layouts, way, key);
        if (!layout || !(*signature = as_recorder_signature(thread, key, layout, caller, depth, inner)))
            continue;
        uint32_t id = as_recorder_known_by(layout, *signature);
        atomic_thread_fence(memory_order_acquire);
        if (id && atomic_load_explicit(&layout->key, memory_order_relaxed) == key) {
            *by = layout;
            if (first != AS_LAYOUT_WAYS && as_recorder_is_alone())
                as_recorder_swap(&layouts[first], &layouts[way]);
            return id;
        }
        if (first == AS_LAYOUT_WAYS) {
            first = way;
            as_recorder_fetch_layouts(layouts, way + 1, key);
        }
    }
    return 0;
}
