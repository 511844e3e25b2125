// SPDX-License-Identifier: MIT
// The program or library that a runtime's code is in: its symbols, its constants, and its variables in the target. Internal to
// runtimes/.
#pragma once

#include "libc/target_modules.h"

struct as_runtime_object {
    struct as_modules modules; // its list is empty
    struct as_module module;
};

// Opens the first mapped object whose file's name begins with `prefix`; to be closed. False: none is mapped, or it cannot be read.
bool as_runtime_object_open(struct as_runtime_object *o, struct as_target *t, const char *prefix);
void as_runtime_object_close(struct as_runtime_object *o);

// Is an object mapped whose file's name begins with `prefix`?
bool as_runtime_object_mapped(const struct as_target *t, const char *prefix);

// The address, in the target, of a symbol that the object exports; 0: it exports none of that name.
uint64_t as_runtime_symbol(const struct as_runtime_object *o, const char *name);

// Reads a string of at most size - 1 bytes that does not change: from the object's file, if there is one (a core may lack these
// pages), else from the target. False: it cannot be read, or is longer.
bool as_runtime_constant(const struct as_runtime_object *o, uint64_t address, char *text, size_t size);
