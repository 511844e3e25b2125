// SPDX-License-Identifier: MIT
// What unloads.c and slow_ending.c share, at an address that both know without the loader.
#pragma once

#include <stdatomic.h>

struct shared {
    void (*_Atomic ending)(void); // what the end of slow_ending.c calls
};

#define SHARED ((struct shared *)0x1000000000)
