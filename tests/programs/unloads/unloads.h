// SPDX-License-Identifier: MIT
// What unloads.c and its libraries share, at an address that they know without the loader.
#pragma once

#include <stdatomic.h>

struct shared {
    _Atomic int relocating, go_on; // slow_relocation.c
    _Atomic int calls;             // of Py_IsInitialized
    void (*_Atomic called)(void);  // what each of them calls
    void (*_Atomic ending)(void);  // slow_ending.c: what its end calls
};

#define SHARED ((struct shared *)0x1000000000)
