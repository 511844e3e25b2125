// SPDX-License-Identifier: MIT
// Thread pointers that a core lacks. On x86-64 processors with FSGSBASE, Linux 5.9 to 5.15 clears the register of every thread
// but the one that dumps before the core is written (exit_mm calls deactivate_mm, which loads FS with 0; from 5.16 on threads
// wait for the dump before any of that), and NT_PRSTATUS has fs_base 0.
//
// The thread pointer is the address of the thread's descriptor (struct pthread of glibc's nptl/descr.h), which begins with its
// own address, has that once more (tcbhead_t: tcb, dtv, self), and the thread's id. Three words that agree, one of them with
// the core's own note, do not occur by chance. The descriptor lies at the far end of the thread's stack; the main thread's is
// the loader's, anywhere in anonymous memory.
#include "target/core/core.h"

#include <string.h>

enum {
    ALIGNMENT = 64, // TCB_ALIGNMENT of x86-64
    TID = 720,      // offsetof (struct pthread, tid), in every release since 2.4
    BLOCK = 1 << 20,
    CANDIDATE = 4096, // what a try of a thread id counts for, in bytes searched: it is a system call
};
// How much is searched, in all: against a core made to take long.
#define MAX_SEARCHED (UINT64_C(1) << 30)

struct thread_search {
    struct as_core *core;
    uint64_t left; // bytes
};

static void charge(struct thread_search *s, uint64_t bytes)
{
    s->left -= bytes < s->left ? bytes : s->left;
}

static bool is_descriptor(struct thread_search *s, uint64_t at, const uint8_t *bytes, int32_t tid)
{
    struct as_core *c = s->core;
    uint64_t words[3];
    int32_t found;
    memcpy(words, bytes, sizeof words);
    if (words[0] != at || words[2] != at)
        return false;
    charge(s, CANDIDATE);
    return c->base.ops->memory.read(&c->base, at + TID, &found, sizeof found) == sizeof found && found == tid;
}

// The descriptor of a thread in [start, end), or 0.
static uint64_t find_descriptor(struct thread_search *s, uint64_t start, uint64_t end, int32_t tid)
{
    struct as_core *c = s->core;
    uint8_t *block = (uint8_t *)c->scratch.items;
    start = (start + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    while (start < end && s->left > 0) {
        size_t want = end - start < BLOCK ? (size_t)(end - start) : BLOCK;
        size_t got = c->base.ops->memory.read(&c->base, start, block, want);
        charge(s, got);
        for (size_t i = 0; i + ALIGNMENT <= got && s->left > 0; i += ALIGNMENT)
            if (is_descriptor(s, start + i, block + i, tid))
                return start + i;
        if (got < want) // the rest is not in the file
            break;
        start += got;
    }
    return 0;
}

static bool may_hold(const struct as_mapping *m)
{
    return m && m->kind == AS_MAP_ANON && (m->prot & AS_PROT_WRITE);
}

static uint64_t find_thread(struct thread_search *s, const struct as_thread *thread)
{
    struct as_target *t = &s->core->base;
    const struct as_mapping *stack = as_target_mapping_at(t, thread->sp);
    uint64_t found = may_hold(stack) ? find_descriptor(s, thread->sp, stack->end, thread->tid) : 0;
    // The loader's memory stands far up.
    for (size_t i = t->mappings.count; found == 0 && thread->tid == t->pid && i-- > 0;)
        if (may_hold(&t->mappings.items[i]))
            found = find_descriptor(s, t->mappings.items[i].start, t->mappings.items[i].end, thread->tid);
    return found;
}

bool as_core_find_thread_pointers(struct as_core *c, struct as_error *err)
{
    struct thread_search s = {.core = c, .left = MAX_SEARCHED};
    AS_FOR_EACH_WHILE(c->base.arch == AS_ARCH_X86_64, struct as_thread, thread, &c->base.threads) {
        if (thread->tp != 0)
            continue;
        c->scratch.count = 0;
        if (!as_vec_reserve(&c->scratch, BLOCK, err))
            return false;
        uint64_t found = find_thread(&s, thread);
        thread->tp = found ? found : AS_UNKNOWN;
    }
    return true;
}
