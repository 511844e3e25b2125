// SPDX-License-Identifier: MIT
#include "malloc/heaps.h"

enum { MAX_FAULTS = 1000 }; // a wrecked heap has millions: the first ones tell the story, the count is in `torn`

const char AS_FAULT_NO_MP[] =
    "mp_ was not found, neither by symbols or debug information nor by its values in libc's data: the main arena is "
    "assumed to begin with its mapping, and memory that brk gave it elsewhere is unknown";

void as_fault_note(struct as_heaps *h, uint32_t arena, uint32_t heap, uint64_t address, const char *what)
{
    struct as_fault *fault = h->faults.count < MAX_FAULTS ? as_vec_add(&h->faults, NULL) : NULL;
    if (fault)
        *fault = (struct as_fault){.address = address, .arena = arena, .heap = heap, .what = what};
}

void as_fault_note_incomplete(struct as_heaps *h, uint32_t arena, uint64_t address, const char *what)
{
    h->incomplete = true;
    as_fault_note(h, arena, UINT32_MAX, address, what);
}
