// SPDX-License-Identifier: MIT
// The execution context of the calling thread: the VM, the thread and the context name each other, and the thread may read its frames now.
#include "profile/ruby.h"

// Another thread may be looking for Ruby anew, after a dlclose: a place is read once.
static uintptr_t vm_place(size_t i)
{
    return __atomic_load_n(&as_cruby.vm_places[i], __ATOMIC_RELAXED);
}

// 0: it ends, or the variables say different things.
static uintptr_t current_vm(void)
{
    uintptr_t place = vm_place(0);
    uintptr_t vm = place ? as_inner_word(place) : 0;
    for (size_t i = 1; vm && i < AS_CRUBY_VM_PLACES && (place = vm_place(i)) != 0; i++)
        if (as_inner_word(place) != vm)
            return 0;
    return vm;
}

uintptr_t as_cruby_own_context(struct as_cruby_context *own)
{
    if (!atomic_load_explicit(&as_cruby.located, memory_order_acquire) && !as_cruby_locate())
        return 0;
    uintptr_t vm = current_vm();
    own->place = as_cruby.ec_variable ? as_cruby.ec_variable : as_recorder_pointer() + as_cruby.ec_offset;
    if (vm == 0 || (as_cruby.ec_variable && !as_cruby.has_lock()) || !as_inner_readable(own->place, sizeof own->place))
        return 0;
    if (as_cruby_vm_of(as_inner_word(own->place), own) != vm || (!as_cruby.layout.blocking && !as_cruby.has_lock()))
        return 0;
    return as_cruby.during_gc() ? 0 : own->context;
}

uintptr_t as_cruby_own_context_again(const struct as_cruby_context *own)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    if (!atomic_load_explicit(&as_cruby.located, memory_order_acquire) || own->context == 0 ||
        own->since != atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed) ||
        current_vm() != own->vm || (as_cruby.ec_variable && !as_cruby.has_lock()) ||
        as_inner_word(own->place) != own->context || as_inner_word(own->context + l->thread) != own->thread ||
        !as_cruby_is_own(l, own) || (!as_cruby.ec_variable && !l->blocking && !as_cruby.has_lock()))
        return 0;
    return as_cruby.during_gc() ? 0 : own->context;
}
