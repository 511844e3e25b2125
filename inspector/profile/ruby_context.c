// SPDX-License-Identifier: MIT
// The execution context of the calling thread: the VM, the thread and the context name each other, and the thread may read its frames now.
#include "profile/ruby.h"

uintptr_t as_cruby_own_context(struct as_cruby_context *own)
{
    if (!atomic_load_explicit(&as_cruby.located, memory_order_acquire) && !as_cruby_locate())
        return 0;
    uintptr_t vm = as_cruby_vm();
    own->place = as_cruby.ec_variable ? as_cruby.ec_variable : as_recorder_pointer() + as_cruby.ec_offset;
    if (vm == 0 || (as_cruby.ec_variable && !as_cruby.has_lock()) || !as_inner_readable(own->place, sizeof own->place))
        return 0;
    if (as_cruby_vm_of(as_inner_word(own->place), own) != vm || (!as_cruby.layout.blocking && !as_cruby.has_lock()))
        return 0;
    return as_cruby.during_gc() ? 0 : own->context;
}
