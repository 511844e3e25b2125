// SPDX-License-Identifier: MIT
// The contexts in which a thread that an interpreter runs has allocated lately. An entry has all that a signature is
// made of, word by word: the return addresses and frame pointers of the C stack, and the innermost interpreted frames.
// The outer ones are compared with those of the thread's last walk (stack_memo.h). So a context that comes again is
// recognised without a hash of all that, and without another walk. Internal to profile/.
#pragma once

#include "recorder/interpreters.h"
#include "recorder/stack_memo.h"

// By which a context is searched for: where the call is, and what the interpreted frames are, as far as that is known without a walk.
static inline uint64_t as_recent_hash(const struct as_unwind_registers *caller, uint64_t frames)
{
    return (caller->pc ^ caller->sp << 16 ^ frames << 4) * AS_RECORDER_FACTOR;
}

// The first of the places where it may be.
static inline struct as_recorder_recent *as_recent_at(struct as_recorder_last *last, uint64_t hash)
{
    return &last->recent[(hash >> (64 - AS_RECENT_BITS)) * AS_RECENT_WAYS];
}

// What an entry is valid for: a list of modules, a thread, and what its interpreter has freed so far. The last two are the mark.
static inline uint64_t as_recent_mark(const struct as_recorder_thread *thread, uint64_t freed)
{
    return as_recorder_mark(thread) + freed * UINT64_C(0xda942042e4dd58b5);
}

static inline uint64_t as_recent_version(uint64_t mark)
{
    return atomic_load_explicit(&as_recorder.epoch, memory_order_relaxed) + mark;
}

// The C stack is the same, as far as a signature tells. It is readable where it was, as the stack pointer is the same. No branch for each
// word: one that is taken where it was not expected takes longer than some words.
static inline bool as_recent_has_stack(const struct as_recorder_recent *r, const struct as_unwind_registers *caller,
                                       uint64_t version)
{
    if (((r->sp ^ caller->sp) | (r->pc ^ caller->pc) | (r->version ^ version)) != 0 ||
        (r->by_fp && r->fp != caller->fp))
        return false;
    const uintptr_t *stack = (const uintptr_t *)caller->sp;
    uint32_t differ = 0;
    for (size_t i = 0; i < r->words; i += AS_RECENT_STEP)
#pragma GCC unroll 4
        for (size_t j = i; j < i + AS_RECENT_STEP; j++)
            differ |= (uint32_t)stack[r->offsets[j]] ^ r->values[j];
    return differ == 0;
}

// Perhaps the context is one of these, and its entry does not hold any more. It was found since it was kept or renewed,
// or not so long ago: what makes entries outdated may come as often as allocations, and then it is not worth while.
static inline bool as_recent_is_any_outdated(const struct as_recorder_recent *set,
                                             const struct as_unwind_registers *caller, uint64_t version)
{
    bool any = false;
    for (const struct as_recorder_recent *r = set; r < set + AS_RECENT_WAYS; r++)
        any |= r->sp == caller->sp && r->pc == caller->pc && r->version != version && r->score > 0;
    return any;
}

static inline uint32_t as_recent_found(struct as_recorder_recent *r)
{
    if (r->score != AS_RECENT_SCORE)
        r->score = AS_RECENT_SCORE;
    return r->id;
}

// context_memo.c: the context of an allocation in a process with an interpreter, if it is recognised by its signature;
// else 0: *attempt says what was found. attempt->same is of the snapshot before.
uint32_t as_recorder_recognise_with_inner(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                                          struct as_recorder_attempt *attempt);

// The thread has been taken for being in another context than it was in: it forgets all that it was recognised by.
void as_recorder_forget_recent(const struct as_recorder_thread *thread);

// Whether the thread is on the part of its own stack that is known, and the context, if it is recognised, is not to be checked.
static inline bool as_recorder_may_recognise(const struct as_recorder_thread *thread, uintptr_t sp)
{
    return thread->low != 0 && sp >= thread->low && sp < thread->high && thread->hits % AS_RECORDER_CHECK != 0;
}

static inline bool as_recorder_has_interpreter(void)
{
    return atomic_load_explicit(&as_python.found, memory_order_acquire) ||
           atomic_load_explicit(&as_cruby.found, memory_order_acquire);
}

// The context, if the thread has been in it lately, or if it is recognised; else 0: *attempt says what was found. No
// function is called where there is no interpreter.
static inline uint32_t as_recorder_context_quickly(struct as_recorder_thread *thread,
                                                   const struct as_unwind_registers *caller,
                                                   struct as_recorder_attempt *attempt)
{
    bool python = atomic_load_explicit(&as_python.found, memory_order_acquire);
    if (python || atomic_load_explicit(&as_cruby.found, memory_order_acquire)) {
        *attempt = (struct as_recorder_attempt){.recognisable = true};
        uint32_t id = !as_recorder.every ? 0
                      : python           ? as_python_recall(thread, caller, attempt)
                                         : as_cruby_recall(thread, caller, attempt);
        return __builtin_expect(id != 0, 1) ? id : as_recorder_recognise_with_inner(thread, caller, attempt);
    }
    uintptr_t depth = thread->high - caller->sp;
    uint64_t signature;
    struct as_recorder_layout *by;
    uint32_t id = as_recorder_recognise(thread, as_recorder_key(caller, depth), caller, depth, as_recorder_mark(thread),
                                        &signature, &by);
    if (__builtin_expect(id == 0, 0))
        *attempt = (struct as_recorder_attempt){.recognisable = true};
    return id;
}
