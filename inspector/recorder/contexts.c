// SPDX-License-Identifier: MIT
// A context is recognised by its signature. Only a signature that is not known is unwound to its end, and only what is not known of
// its stack is written down. No lock is taken. Where the tables are full, a signature is known to have no context: a stack that
// is met again is not unwound again.
#include "recorder/context_memo.h"
#include "recorder/hot_path.h"
#include "recorder/interpreters.h"
#include "recorder/merge_frames.h"

#include <errno.h>
#include <string.h>

struct stack_to_unwind {
    struct as_recorder_thread *thread;
    const struct as_unwind_registers *caller;
    struct as_unwind_stacks stacks;
    bool grown;    // more than before was taken for the thread's own stack just now,
    uintptr_t low; // which was known from here on; 0: nothing was known of it
    struct as_recorder_scratch *scratch;
    struct as_inner_walk *walk; // NULL: no interpreter's frames are known
    uint32_t expected;          // the context that was recognised, if this is to be checked; else 0
};

// --- Stacks and contexts ----------------------------------------------------------------------------------------------

static bool is_context(uint32_t id, const void *wanted)
{
    const struct as_profile_context *c = &as_recorder.contexts[id], *w = wanted;
    return c->stack == w->stack && c->thread == w->thread && c->complete == w->complete;
}

// AS_PROFILE_LOST: there is no room, or it is not there, and not to be added. `fresh`: nobody has been on its stack.
static uint32_t find_entry(const struct as_profile_context *wanted, bool fresh, bool add)
{
    struct as_profile_table *table = &as_recorder.head->contexts;
    uint32_t who = (uint32_t)wanted->thread << 1 | wanted->complete;
    struct as_recorder_chain chain = {.used = as_recorder_used(table),
                                      .hash = as_recorder_context_hash(wanted->stack, who)};
    uint32_t known = 0;
    if (fresh && wanted->thread != 0)
        chain.seen = AS_RECORDER_ALL_SEEN;
    else
        known = as_recorder_chains_find(&as_recorder.context_chains, &chain, is_context, wanted);
    if (known || !add)
        return known ? known : AS_PROFILE_LOST;
    uint64_t id = as_recorder_take_places(table, 1);
    if (id == UINT64_MAX)
        return AS_PROFILE_LOST;
    struct as_profile_context *c = &as_recorder.contexts[id];
    c->stack = wanted->stack;
    c->complete = wanted->complete;
    c->thread = wanted->thread;
    __atomic_store_n(&c->count, wanted->count, __ATOMIC_RELEASE); // last: the writer of a trace searches for it
    return as_recorder_chains_add(&as_recorder.context_chains, &chain, (uint32_t)id, is_context, wanted);
}

// Where half of the table is taken, a stack has no more threads of its own.
static bool is_crowded(void)
{
    const struct as_profile_table *contexts = &as_recorder.head->contexts;
    return as_recorder_used(contexts) > contexts->size / 2;
}

// The stack with these frames; only those that differ from the thread's last stack are searched for. 0: there is no room. *fresh: nobody
// has been on it.
static uint32_t stack_with(struct as_recorder_last_stack *last, const struct as_recorder_merged *m, bool *fresh)
{
    size_t same = m->same;
    *fresh = false;
    while (last && same < m->count && same < last->count && last->frames[same] == m->frames[same])
        same++;
    uint32_t stack = last && same > 0 ? last->stacks[same - 1] : 0;
    if (last)
        last->count = same;
    atomic_signal_fence(memory_order_seq_cst);
    for (size_t count, i = same; i < m->count; i += count) {
        count = m->count - i;
        if ((stack = as_recorder_find_or_add_stacks(stack, m->frames + i, &count, fresh)) == 0)
            return 0;
        for (size_t j = 0; last && j < count; j++)
            last->stacks[i + j] = stack - (uint32_t)(count - 1 - j);
    }
    if (last)
        memcpy(last->frames + same, m->frames + same, (m->count - same) * sizeof *m->frames);
    atomic_signal_fence(memory_order_seq_cst);
    if (last) {
        last->count = m->count;
        last->functions = m->functions;
    }
    return stack;
}

// Whether the unwound stack is that of the context to be checked. It nearly always is, and to search for a stack, a
// chain is followed for each frame.
static bool is_expected(const struct stack_to_unwind *w, const struct as_profile_context *wanted,
                        const struct as_recorder_merged *m)
{
    const struct as_profile_context *c = &as_recorder.contexts[w->expected];
    return w->expected >= AS_PROFILE_FIRST && c->count == wanted->count && c->thread == wanted->thread &&
           c->complete == wanted->complete && as_recorder_has_frames(c->stack, m->frames, m->count);
}

// Thread 0 stands for all that have no context of their own.
static uint32_t intern(const struct stack_to_unwind *w, struct as_recorder_last_stack *last,
                       const struct as_recorder_merged *m, bool complete)
{
    struct as_profile_context wanted = {.count = (uint16_t)m->count, .complete = complete};
    wanted.thread = w->thread->name & ((1U << AS_PROFILE_THREAD_BITS) - 1);
    bool own = wanted.thread != 0, fresh;
    if (is_expected(w, &wanted, m))
        return w->expected;
    if ((wanted.stack = stack_with(last, m, &fresh)) == 0)
        return AS_PROFILE_LOST;
    uint32_t id = find_entry(&wanted, fresh, !own || !is_crowded());
    if (id != AS_PROFILE_LOST || !own)
        return id;
    wanted.thread = 0;
    return find_entry(&wanted, fresh, true);
}

static struct as_recorder_last *last_of(const struct stack_to_unwind *w)
{
    return w->expected ? NULL : w->thread->before;
}

// All of the stack: what the thread was on before is compared with it, but where this is to be checked.
static size_t unwind(const struct stack_to_unwind *w, const struct as_unwind_modules *modules, bool *complete)
{
    struct as_recorder_scratch *s = w->scratch;
    struct as_recorder_last *last = last_of(w);
    const struct as_unwind_places places = {.slots = s->slots, .slot_count = AS_RECORDER_SIGNATURE, .ends = s->ends};
    size_t common = last ? last->stack.common : 0;
    if (last)
        last->stack.common = 0;
    atomic_signal_fence(memory_order_seq_cst);
    size_t count = as_unwind_frames(modules, w->caller, &w->stacks, as_recorder.rows, last ? &last->unwound : NULL,
                                    s->pcs, &places, AS_RECORDER_DEPTH - 1, complete);
    if (last)
        last->stack.common = common < last->unwound.kept ? common : last->unwound.kept;
    return count;
}

// The first address of the stack that is in no module; 0: there is none. `known`: so many of the outermost frames are known to be in
// modules.
static uintptr_t unknown_code(const struct stack_to_unwind *w, const struct as_unwind_modules *modules, size_t count,
                              size_t known)
{
    const struct as_unwind_module *module = NULL;
    const size_t last = known < count ? count - known : 0; // of a stack that is cut, more may be known than it has
    for (size_t i = 0; i <= last; i++) {
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
    struct as_recorder_last *last = last_of(w);
    bool is_of_modules = last && last->is_of_modules;
    if (last)
        last->is_of_modules = false; // until all is written
    atomic_signal_fence(memory_order_seq_cst);
    const struct as_unwind_modules *modules = as_recorder_modules_take(w->thread);
    uint64_t generation = modules->generation;
    *count = unwind(w, modules, complete);
    uintptr_t unknown = unknown_code(w, modules, *count, is_of_modules ? last->unwound.kept : 0);
    *sure = as_recorder_modules_doubt(modules, unknown);
    as_recorder_modules_leave(w->thread);
    modules = as_recorder_modules_take(w->thread);
    bool again = modules->generation != generation;
    if (again)
        *count = unwind(w, modules, complete);
    atomic_signal_fence(memory_order_seq_cst);
    if (last)
        last->is_of_modules = last->unwound.is_whole ? unknown == 0 && !again : is_of_modules;
    return modules;
}

// AS_PROFILE_LOST: there is no room. (A stack of 16 KiB has none for another list of frames: where there are none of an interpreter, nobody
// needs their ends any more.)
static uint32_t context_of(const struct stack_to_unwind *w, const struct as_unwind_modules *modules, size_t count,
                           bool complete)
{
    struct as_recorder_last *last = last_of(w);
    struct as_recorder_unwound unwound = {.modules = modules,
                                          .pc = w->caller->pc,
                                          .count = count,
                                          .pcs = w->scratch->pcs,
                                          .ends = w->scratch->ends,
                                          .walk = w->walk};
    struct as_recorder_merged m = as_recorder_merge(&unwound, w->scratch->ends, last ? &last->stack : NULL);
    complete &= !m.cut;
    if (!complete)
        AS_RECORDER_COUNT(cut);
    uint32_t id = intern(w, last ? &last->stack : NULL, &m, complete);
    if (last)
        last->stack.common = last->unwound.is_whole ? last->stack.functions : 0;
    return id;
}

// 0: nobody could say which modules there are. AS_PROFILE_LOST: there is no room.
static uint32_t unwind_whole(const struct stack_to_unwind *w)
{
    size_t count;
    bool complete = false, sure;
    const struct as_unwind_modules *modules = unwind_to_end(w, &count, &complete, &sure);
    uint32_t id = sure ? context_of(w, modules, count, complete) : 0;
    as_recorder_modules_leave(w->thread);
    return id;
}

// Where more than one in a thousand stacks is taken for another one, there is a recursion that is deeper than what decides.
static void doubt_signatures(void)
{
    enum { LEAST = 4, MOST_SHARE = 1000 };
    const struct as_profile_counts *counts = &as_recorder.head->counts;
    uint64_t wrong = __atomic_load_n(&counts->wrong, __ATOMIC_RELAXED);
    if (wrong >= LEAST && wrong * MOST_SHARE > __atomic_load_n(&counts->checked, __ATOMIC_RELAXED) &&
        !atomic_exchange(&as_recorder.signs_all, true))
        as_recorder_modules_unlearn();
}

static uint32_t check(struct stack_to_unwind *w, struct as_recorder_layout *by, uint64_t signature, uint32_t id)
{
    w->expected = id;
    uint32_t real = unwind_whole(w);
    if (id != AS_PROFILE_LOST)
        AS_RECORDER_COUNT(checked);
    if (real == id || real == 0 || real == AS_PROFILE_LOST)
        return id;
    if (id != AS_PROFILE_LOST)
        AS_RECORDER_COUNT(wrong);
    as_recorder_learn(by, signature, real);
    as_recorder_forget_recent(w->thread);
    doubt_signatures();
    return real;
}

// Whether the main thread may be on a thread's stack, as it has called fork() there, or else on a coroutine's right below its variables.
static bool may_be_forked(const struct as_recorder_thread *t)
{
    return t->main && t->high != as_recorder.main_high && as_recorder.thread_start != 0;
}

// A thread without a guard may have a coroutine's stack right below its own, and all is readable. But the outermost frame is there, too.
static void doubt_stack(const struct stack_to_unwind *w, size_t count, bool complete)
{
    uintptr_t end = count > 0 ? w->scratch->ends[count - 1] : w->caller->sp;
    uintptr_t start = count > 0 ? w->scratch->pcs[count - 1] : w->caller->pc;
    bool is_another = complete && end <= w->low;
    if (w->low == 0 && may_be_forked(w->thread))
        is_another = !complete || start != as_recorder.thread_start;
    if (is_another)
        as_recorder_stack_is_another(w->thread, w->caller->sp, w->low);
}

// The interpreter's frames themselves, right after as_recorder_inner(). NULL: there is no room, or they cannot be read.
static struct as_inner_walk *take_walk(const struct stack_to_unwind *w, bool due, uint64_t *inner)
{
    struct as_inner_walk *walk = as_inner_walk_take(w->thread);
    if (!walk || (!due && as_recorder_inner_again(w->thread, w->caller->sp, walk)) ||
        as_recorder_inner(w->thread, w->caller->sp, 0, walk, inner))
        return walk;
    as_inner_walk_leave(w->thread);
    return NULL;
}

// Finds the context of C functions alone where an interpreter's frames cannot be read: then it is not recognised the next time.
static uint32_t find_context(struct stack_to_unwind *w, uintptr_t depth, const struct as_recorder_attempt *attempt)
{
    uint64_t signature = 0, inner = attempt ? attempt->inner : 0;
    bool recognisable = attempt ? attempt->recognisable : as_recorder_inner(w->thread, w->caller->sp, 0, NULL, &inner);
    uint64_t key = as_recorder_key(w->caller, depth);
    uint64_t mark = as_recorder_mark(w->thread);
    struct as_recorder_layout *by = NULL;
    uint32_t id = recognisable && !attempt && !w->grown
                      ? as_recorder_recognise(w->thread, key, w->caller, depth, inner ^ mark, &signature, &by)
                      : 0;
    bool due = id && w->thread->hits++ % AS_RECORDER_CHECK == 0;
    if (id && !due)
        return id;
    if (inner != 0 && !(w->walk = take_walk(w, due, &inner)))
        recognisable = false;
    if (due) {
        if (w->walk)
            as_inner_forget_pages();
        return recognisable ? check(w, by, signature, id) : id;
    }
    AS_RECORDER_COUNT(misses);
    size_t count;
    bool complete = false, sure;
    const struct as_unwind_modules *modules = unwind_to_end(w, &count, &complete, &sure);
    if (w->grown)
        doubt_stack(w, count, complete);
    signature =
        as_recorder_make_signature(w->thread, key, modules, w->caller, depth, inner ^ mark, w->walk, count, &by);
    recognisable &= sure && signature != 0;
    if (recognisable) // it is learnt below
        __builtin_prefetch((void *)as_recorder_signature_places(signature));
    // The context may be known by a layout that has given way. Where all is recorded, one in 30 to 2,000 is, and each snapshot waits for
    // memory.
    id = recognisable && !as_recorder.every ? as_recorder_known(signature) : 0;
    if (!id && sure)
        id = context_of(w, modules, count, complete);
    if (id && recognisable)
        as_recorder_learn(by, signature, id);
    as_recorder_modules_leave(w->thread);
    return id ? id : AS_PROFILE_LOST;
}

// On a stack whose end is not known nothing is recognised: it is not read but by the unwinder, and within what is readable.
static uint32_t find_foreign(struct stack_to_unwind *w)
{
    uint64_t inner;
    if (atomic_load_explicit(&as_cruby.found, memory_order_acquire) && (w->walk = as_inner_walk_take(w->thread)) &&
        !as_cruby_walk(w->thread, w->caller->sp, w->stacks.end, 0, w->walk, &inner))
        w->walk->count = 0;
    uint32_t id = unwind_whole(w);
    return id ? id : AS_PROFILE_LOST;
}

uint32_t as_recorder_context(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                             const struct as_recorder_attempt *attempt)
{
    int saved = errno;
    if (as_recorder_is_another(thread)) { // first: what is known of the stack is the other one's
        as_recorder_thread_name(thread);
        attempt = NULL;
    }
    bool own;
    const uintptr_t low = thread->low;
    struct stack_to_unwind w = {.thread = thread,
                                .caller = caller,
                                .stacks = as_recorder_stacks(thread, caller->sp, &own),
                                .scratch = &as_recorder.scratch[thread->index]};
    w.grown = thread->low != low;
    w.low = low;
    uint32_t id = own ? find_context(&w, w.stacks.end - caller->sp, attempt) : find_foreign(&w);
    if (w.walk)
        as_inner_walk_leave(thread);
    errno = saved;
    return id;
}
