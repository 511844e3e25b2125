// SPDX-License-Identifier: MIT
// The execution context of the calling thread: the VM, the thread and the context name each other, and the thread may read its frames now.
#include "profile/ruby.h"

// Where all threads have one variable, it is another one's unless the thread has the VM's lock; such a Ruby stays.
static uintptr_t read_place(struct as_cruby_context *own)
{
    own->place = as_cruby.ec_variable ? as_cruby.ec_variable : as_recorder_pointer() + as_cruby.ec_offset;
    if (as_cruby.ec_variable && !as_cruby.has_lock())
        return 0;
    return as_inner_readable(own->place, sizeof own->place) ? as_inner_word(own->place) : 0;
}

uintptr_t as_cruby_own_context(struct as_cruby_context *own)
{
    if (!atomic_load_explicit(&as_cruby.located, memory_order_acquire) && !as_cruby_locate())
        return 0;
    uintptr_t vm = as_cruby_vm_of(read_place(own), own);
    if (vm == 0 || !as_cruby_is_there(own->context) || as_cruby_vm() != vm ||
        (!as_cruby.ec_variable && !as_cruby.layout.blocking && !as_cruby.has_lock()))
        return 0;
    return as_cruby.during_gc() ? 0 : own->context;
}
