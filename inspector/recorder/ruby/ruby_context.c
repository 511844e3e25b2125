// SPDX-License-Identifier: MIT
// The execution context of the calling thread: the VM, the thread and the context name each other, and the thread may read its frames now.
#include "recorder/ruby/ruby.h"

#include <limits.h>

// The context of the calling thread, if `thread` is this one and has the VM's lock; else 0. What another library keeps by a key names no
// such.
static uintptr_t context_of(uintptr_t thread)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    struct as_cruby_context own;
    if (thread == 0 || thread % sizeof thread != 0 || !as_inner_readable(thread + l->ec, sizeof thread) ||
        !as_inner_readable(thread + l->blocking, sizeof thread) || as_inner_word(thread + l->blocking) != 0)
        return 0;
    uintptr_t context = as_inner_word(thread + l->ec);
    return as_cruby_vm_of(context, &own) != 0 && own.thread == thread ? context : 0;
}

uint32_t as_cruby_find_key(void)
{
    if (!pthread_getspecific || as_cruby_vm() == 0) // weak: before glibc 2.34 a program without libpthread has none
        return 0;
    for (uint32_t key = 0; key < PTHREAD_KEYS_MAX; key++)
        if (context_of((uintptr_t)pthread_getspecific((pthread_key_t)key)) != 0) {
            atomic_store_explicit(&as_cruby.key, key + 1, memory_order_relaxed);
            return key + 1;
        }
    return 0;
}

// Where all threads have one variable, it is another one's unless the thread has the VM's lock; such a Ruby stays.
static uintptr_t read_place(struct as_cruby_context *own)
{
    own->place = as_cruby.ec_variable ? as_cruby.ec_variable : as_recorder_pointer() + as_cruby.ec_offset;
    uintptr_t context = as_cruby.ec_variable ? context_of(as_cruby_keyed_thread()) : 0;
    if ((as_cruby.ec_variable && context == 0) || !as_inner_readable(own->place, sizeof own->place))
        return 0;
    uintptr_t there = as_inner_word(own->place);
    return as_cruby.ec_variable && there != context ? 0 : there;
}

uintptr_t as_cruby_own_context(struct as_cruby_context *own)
{
    if (!atomic_load_explicit(&as_cruby.located, memory_order_acquire) && !as_cruby_locate())
        return 0;
    uintptr_t vm = as_cruby_vm_of(read_place(own), own);
    if (vm == 0 || !as_cruby_is_there(own->context) || as_cruby_vm() != vm)
        return 0;
    return as_cruby_collects(own) ? 0 : own->context;
}
