// SPDX-License-Identifier: MIT
#include "recorder/hot_path.h"

#include <sys/syscall.h>
#include <unistd.h>

struct as_recorder_thread *as_recorder_thread_find(uintptr_t pointer)
{
    size_t place = as_recorder_thread_place(pointer);
    for (size_t i = 0; i < AS_RECORDER_PROBES; i++) {
        struct as_recorder_thread *t = &as_recorder.threads[(place + i) & (AS_RECORDER_THREADS - 1)];
        uintptr_t there = atomic_load_explicit(&t->pointer, memory_order_relaxed);
        if (there == pointer)
            return t;
        if (there == 0)
            return NULL;
    }
    return NULL;
}

uint32_t as_recorder_own_id(void)
{
    const struct as_recorder_thread *t = as_recorder.threads ? as_recorder_thread_find(as_recorder_pointer()) : NULL;
    if (t && t->tid != 0 && t->tid_at && t->tid_at != &t->tid && *t->tid_at == t->tid)
        return t->tid;
    return (uint32_t)syscall(SYS_gettid);
}
