// SPDX-License-Identifier: MIT
// A context is recognised by its signature. Only a signature that is not known is unwound to its end, and only a stack that is not known
// is written down. No lock is taken: what two threads add at the same time is there twice, and one of the two is never found.
#include "profile/fast.h"
#include "profile/interpreters.h"

#include <string.h>

enum { PROBES = 16 };

// --- Contexts ---------------------------------------------------------------------------------------------------------

// Where half of the table is taken, a stack has no more threads of its own.
static bool is_crowded(void)
{
    const struct as_profile_table *contexts = &as_recorder.head->contexts;
    return __atomic_load_n(&contexts->used, __ATOMIC_RELAXED) > contexts->size / 2;
}

// A context to be: `frames` NULL: it has those of another context, which begin at `first`.
struct wanted_context {
    const uint64_t *frames;
    uint32_t first, hash;
    uint16_t count, thread;
    bool complete;
};

static bool is_context(uint32_t id, const struct wanted_context *w)
{
    const struct as_profile_context *c = &as_recorder.contexts[id];
    if (c->hash != w->hash || c->count != w->count || c->complete != w->complete)
        return false;
    return w->frames ? memcmp(&as_recorder.frames[c->first], w->frames, w->count * sizeof *w->frames) == 0
                     : c->first == w->first && c->thread == w->thread;
}

static uint32_t add_context(const struct wanted_context *w)
{
    struct as_profile_head *head = as_recorder.head;
    if (__atomic_load_n(&head->contexts.used, __ATOMIC_RELAXED) >= head->contexts.size)
        return 0;
    // The frames first: a context is an entry that somebody completes.
    uint64_t first = w->frames ? as_recorder_take_places(&head->frames, w->count) : w->first;
    uint64_t id = first != UINT64_MAX ? as_recorder_take_places(&head->contexts, 1) : UINT64_MAX;
    if (id == UINT64_MAX)
        return 0;
    if (w->frames)
        memcpy(&as_recorder.frames[first], w->frames, w->count * sizeof *w->frames);
    struct as_profile_context *c = &as_recorder.contexts[id];
    c->first = (uint32_t)first;
    c->complete = w->complete;
    c->thread = w->thread & ((1U << AS_PROFILE_THREAD_BITS) - 1);
    c->hash = w->hash;
    __atomic_store_n(&c->count, w->count, __ATOMIC_RELEASE); // last: the writer of a full record looks for it
    return (uint32_t)id;
}

// AS_PROFILE_LOST: there is no room, or it is not there, and not to be added.
static uint32_t find(const struct wanted_context *w, bool add)
{
    uint32_t added = 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint32_t *place = &as_recorder.index[(w->hash + i) & (AS_RECORDER_INDEX - 1)];
        uint32_t id = atomic_load_explicit(place, memory_order_acquire);
        if (id == 0) {
            if (!add || (added == 0 && (added = add_context(w)) == 0))
                return AS_PROFILE_LOST;
            if (atomic_compare_exchange_strong(place, &id, added))
                return added;
        }
        if (is_context(id, w))
            return id;
    }
    return AS_PROFILE_LOST;
}

// Of a stack that another thread was seen on first, the context of this thread. Thread 0 stands for all that have none.
static uint32_t of_thread(const struct wanted_context *stack, uint32_t id)
{
    const struct as_profile_context *c = &as_recorder.contexts[id];
    struct wanted_context own = *stack;
    if (id == AS_PROFILE_LOST || c->thread == stack->thread)
        return id;
    own.frames = NULL;
    own.first = c->first;
    own.hash = (uint32_t)(as_recorder_mix_in(stack->hash, stack->thread + UINT64_C(1)) >> 32);
    return find(&own, !is_crowded() || stack->thread == 0);
}

static uint32_t intern(uint16_t thread, const uint64_t *frames, size_t count, bool complete)
{
    uint64_t mixed = complete;
    for (size_t i = 0; i < count; i++)
        mixed = as_recorder_mix_in(mixed, frames[i]);
    struct wanted_context stack = {.frames = frames,
                                   .count = (uint16_t)count,
                                   .thread = thread,
                                   .hash = (uint32_t)(mixed >> 32),
                                   .complete = complete};
    uint32_t any = find(&stack, thread == 0 || !is_crowded()), id = of_thread(&stack, any);
    if (id != AS_PROFILE_LOST || thread == 0)
        return id;
    stack.thread = 0;
    return of_thread(&stack, any != AS_PROFILE_LOST ? any : find(&stack, true));
}

struct stack_to_unwind {
    struct as_recorder_thread *thread;
    const struct as_unwind_registers *caller;
    struct as_unwind_stacks stacks;
    struct as_recorder_scratch *scratch;
    struct as_inner_walk *walk; // NULL: no interpreter's frames are known
};

static size_t unwind(const struct stack_to_unwind *w, const struct as_unwind_modules *modules, size_t max,
                     bool *complete)
{
    return as_unwind_stack(modules, w->caller, &w->stacks, as_recorder.rows, w->scratch->pcs, w->scratch->slots, max,
                           complete);
}

// The first address of the stack that is in no module; 0: there is none.
static uintptr_t unknown_code(const struct stack_to_unwind *w, const struct as_unwind_modules *modules, size_t count)
{
    const struct as_unwind_module *module = NULL;
    for (size_t i = 0; i <= count; i++) {
        uintptr_t pc = i > 0 ? w->scratch->pcs[i - 1] : w->caller->pc;
        if (module && pc >= module->start && pc < module->end)
            continue;
        if (!(module = as_unwind_module_at(modules, pc)))
            return pc;
    }
    return 0;
}

// Unwinds the stack to its end, and once more where the loader has changed something: what is above code of no module was guessed.
// Returns the list of modules by which it was unwound, to be left. *sure: this is the loader's.
static const struct as_unwind_modules *unwind_to_end(const struct stack_to_unwind *w, size_t *count, bool *complete,
                                                     bool *sure)
{
    const struct as_unwind_modules *modules = as_recorder_modules_take(w->thread);
    uint64_t generation = modules->generation;
    *count = unwind(w, modules, AS_RECORDER_DEPTH - 1, complete);
    *sure = as_recorder_modules_doubt(modules, unknown_code(w, modules, *count));
    as_recorder_modules_leave(w->thread);
    modules = as_recorder_modules_take(w->thread);
    if (modules->generation != generation)
        *count = unwind(w, modules, AS_RECORDER_DEPTH - 1, complete);
    return modules;
}

// The functions that an interpreter runs stand where its own C function does: in whose stack frame their place is. False: the outermost
// frames are missing.
static bool interleave(const struct stack_to_unwind *w, const struct as_unwind_modules *modules, size_t *count)
{
    struct as_inner_walk *walk = w->walk;
    const struct as_recorder_scratch *s = w->scratch;
    size_t merged = 0, taken = 0;
    for (size_t i = 0; i <= *count; i++) {
        uintptr_t end = i < *count ? s->slots[i] : UINTPTR_MAX;
        size_t before = taken;
        uintptr_t inner = i < 2 ? i == 1 ? w->caller->pc : 0 : s->pcs[i - 2];
        if (taken < walk->count && walk->frames[taken].place < end && merged > 0 && inner >= walk->loop &&
            inner < walk->loop_end)
            merged--; // the bytecode loop, which the function with the frames' places calls
        for (; taken < walk->count && walk->frames[taken].place < end; taken++) {
            if (merged == AS_RECORDER_DEPTH)
                return *count = merged - 1, false;
            walk->merged[merged++] = as_interpreters_name(w->thread, walk, &walk->frames[taken]);
        }
        if (taken > before)
            continue;
        if (merged == AS_RECORDER_DEPTH)
            return *count = merged - 1, false;
        walk->merged[merged++] = as_recorder_frame(modules, i > 0 ? s->pcs[i - 1] : w->caller->pc);
    }
    *count = merged - 1;
    return !walk->cut;
}

static uint32_t unwind_whole(const struct stack_to_unwind *w, size_t *count)
{
    bool complete = false, sure;
    const struct as_unwind_modules *modules = unwind_to_end(w, count, &complete, &sure);
    if (!sure) {
        as_recorder_modules_leave(w->thread);
        return AS_PROFILE_LOST;
    }
    uint64_t *frames = w->scratch->slots; // which nobody needs any more: a stack of 16 KiB has no room for another list
    if (w->walk && w->walk->count > 0) {
        complete &= interleave(w, modules, count);
        frames = w->walk->merged;
    } else {
        frames[0] = as_recorder_frame(modules, w->caller->pc);
        for (size_t i = 0; i < *count; i++)
            frames[i + 1] = as_recorder_frame(modules, w->scratch->pcs[i]);
    }
    as_recorder_modules_leave(w->thread);
    if (!complete)
        AS_RECORDER_COUNT(cut);
    return intern(w->thread->name, frames, *count + 1, complete);
}

static uint32_t check(const struct stack_to_unwind *w, uint64_t signature, uint32_t id)
{
    size_t count;
    uint32_t real = unwind_whole(w, &count);
    AS_RECORDER_COUNT(checked);
    if (real == id || real == AS_PROFILE_LOST)
        return id;
    AS_RECORDER_COUNT(wrong);
    as_recorder_learn(signature, real);
    return real;
}

// The interpreter's frames themselves. NULL: there is no room, or they cannot be read.
static struct as_inner_walk *take_walk(const struct stack_to_unwind *w, uint64_t *inner)
{
    struct as_inner_walk *walk = as_inner_walk_take();
    if (!walk || as_recorder_inner(w->thread, w->caller->sp, walk, inner))
        return walk;
    as_inner_walk_leave(walk);
    return NULL;
}

// Of C functions alone where an interpreter's frames cannot be read: then it is not recognised the next time.
static uint32_t find_context(struct stack_to_unwind *w, uintptr_t depth)
{
    size_t count;
    uint64_t signature = 0, inner = 0;
    bool recognisable = as_recorder_inner(w->thread, w->caller->sp, NULL, &inner);
    uint64_t key = as_recorder_key(w->caller, depth);
    uint64_t mark = as_recorder_mark(w->thread);
    uint32_t id = recognisable ? as_recorder_recognise(key, w->caller, depth, inner ^ mark, &signature) : 0;
    bool due = id && w->thread->hits++ % AS_RECORDER_CHECK == 0;
    if (id && !due)
        return id;
    if (inner != 0 && !(w->walk = take_walk(w, &inner)))
        recognisable = false;
    if (due) {
        if (w->walk)
            as_inner_forget_pages(w->thread);
        return recognisable ? check(w, signature, id) : id;
    }
    AS_RECORDER_COUNT(misses);
    bool complete;
    const struct as_unwind_modules *modules = as_recorder_modules_take(w->thread);
    count = unwind(w, modules, AS_RECORDER_SIGNATURE, &complete);
    signature = as_recorder_make_signature(key, modules, w->caller, depth, inner ^ mark, w->scratch, count);
    as_recorder_modules_leave(w->thread);
    id = signature && recognisable ? as_recorder_known(signature) : 0;
    if (!id) {
        id = unwind_whole(w, &count);
        if (signature && recognisable && id != AS_PROFILE_LOST)
            as_recorder_learn(signature, id);
    }
    return id;
}

// On a stack whose end is not known nothing is recognised: it is not read but by the unwinder, and within what is readable.
static uint32_t find_foreign(struct stack_to_unwind *w)
{
    size_t count;
    uint64_t inner;
    if (atomic_load_explicit(&as_cruby.found, memory_order_acquire) && (w->walk = as_inner_walk_take()) &&
        !as_cruby_walk(w->thread, w->caller->sp, w->stacks.end, w->walk, &inner))
        w->walk->count = 0;
    return unwind_whole(w, &count);
}

uint32_t as_recorder_context(struct as_recorder_thread *thread, const struct as_unwind_registers *caller)
{
    bool own;
    struct stack_to_unwind w = {.thread = thread,
                                .caller = caller,
                                .stacks = as_recorder_stacks(thread, caller->sp, &own),
                                .scratch = &as_recorder.scratch[thread->index]};
    if (as_recorder_is_another(thread))
        as_recorder_thread_name(thread);
    uint32_t id = own ? find_context(&w, w.stacks.end - caller->sp) : find_foreign(&w);
    if (w.walk)
        as_inner_walk_leave(w.walk);
    return id;
}
