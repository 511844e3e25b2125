// SPDX-License-Identifier: MIT
// A library with one function, which allocates. ROOM moves it: two of them do not have their call at the same offset.
#include <stdlib.h>

void *allocates(void);

void *allocates(void)
{
    volatile char room[ROOM];
    room[0] = 1;
    void *memory = malloc(48 + (size_t)room[0] * ROOM);
    room[1] = memory != NULL; // so that the call is no jump
    return memory;
}
