// SPDX-License-Identifier: MIT
// A library that has what CPython 3.11 is recognised by, and is none: it is never initialised. See unloads.c.
#include <stdlib.h>

struct type {
    void (*words[64])(void *);
};

static void dealloc(void *object)
{
    free(object);
}

const unsigned long Py_Version = 0x030b00f0;
struct type PyCode_Type = {.words[6] = dealloc}, PyUnicode_Type, PyBytes_Type;
unsigned long _PyRuntime[512];

void *use(void);

void *use(void)
{
    void *volatile block = malloc(1000);
    return block;
}
