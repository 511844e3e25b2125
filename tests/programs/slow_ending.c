// SPDX-License-Identifier: MIT
// A library whose end calls a function of the program's. See unloads.c.
#include "unloads.h"

static __attribute__((destructor)) void end(void)
{
    void (*called)(void) = SHARED->ending;
    if (called)
        called();
}
