// SPDX-License-Identifier: MIT
// A library whose relocation lasts until it is told to go on; so does that of a library that needs it, which is relocated afterwards.
#include "unloads.h"

int slow(void);

static int really(void)
{
    return 1;
}

static int (*resolve(void))(void)
{
    SHARED->relocating = 1;
    while (!SHARED->go_on)
        continue;
    return really;
}

int slow(void) __attribute__((ifunc("resolve")));
int (*volatile slow_pointer)(void) = slow;
