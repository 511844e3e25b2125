// SPDX-License-Identifier: MIT
// The hook that sees code objects die: it stands in the type's tp_dealloc, a word of CPython's variables. This word is
// written only while the loader's lock is held and its list has the object: so nothing of it is unmapped meanwhile, nor
// is it another's memory. Of an object that was unloaded unseen nothing is written.
#include "recorder/code_objects.h"
#include "recorder/python/python.h"

// Where the hook stands, or stood last, and what stood there.
static _Atomic uintptr_t hooked;
static void (*_Atomic before)(void *);

// The last thing is a jump: no frame of ours is below what stood there.
void as_python_dealloc(void *code)
{
    as_python_code_dies((uintptr_t)code);
    atomic_load_explicit(&before, memory_order_relaxed)(code);
}

struct watching {
    bool in;
    uintptr_t slot;
};

static bool has_slot(struct dl_phdr_info *info, uintptr_t slot)
{
    struct as_recorder_object o;
    const ElfW(Sym) * type;
    return as_recorder_read_object(info, &o) && o.hash &&
           (type = as_recorder_find_symbol(&o, "PyCode_Type", STT_OBJECT)) &&
           o.bias + type->st_value + AS_PYTHON_TYPE_DEALLOC == slot && slot % sizeof slot == 0 &&
           as_recorder_has_variable(&o, slot, sizeof slot);
}

static bool has_code(const struct dl_phdr_info *info, uintptr_t address)
{
    bool inside = false;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        inside |= h->p_type == PT_LOAD && (h->p_flags & PF_X) && address - (info->dlpi_addr + h->p_vaddr) < h->p_memsz;
    }
    return inside;
}

// In an object that is being loaded, the variable has no address yet.
static int watch(struct dl_phdr_info *info, size_t size, void *context)
{
    struct watching *w = context;
    (void)size;
    if (!has_slot(info, w->slot))
        return 0;
    uintptr_t *slot = (uintptr_t *)w->slot;
    uintptr_t there = __atomic_load_n(slot, __ATOMIC_RELAXED), ours = (uintptr_t)as_python_dealloc;
    if (w->in && atomic_load(&as_recorder.on) && has_code(info, there)) {
        atomic_store(&before, (void (*)(void *))there);
        atomic_store(&hooked, w->slot);
        as_python_forget_codes(); // who died since the last profile was not seen
        __atomic_store_n(slot, ours, __ATOMIC_RELEASE);
    } else if (!w->in && there == ours) {
        __atomic_store_n(slot, (uintptr_t)atomic_load(&before), __ATOMIC_RELEASE);
    }
    return 1;
}

static int is_there(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    return has_slot(info, *(const uintptr_t *)context);
}

// There is one hook, which passes on to one function: a second CPython has it only once the first is gone.
void as_python_watch(bool in)
{
    uintptr_t last = atomic_load(&hooked);
    struct watching w = {.in = in, .slot = in ? as_python.dealloc_slot : last};
    if (in ? !atomic_load(&as_python.found) || (last != 0 && last != w.slot && dl_iterate_phdr(is_there, &last))
           : last == 0)
        return;
    dl_iterate_phdr(watch, &w);
}
