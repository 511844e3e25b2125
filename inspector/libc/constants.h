// SPDX-License-Identifier: MIT
// Code and constant data of a target's modules. A core leaves out what nobody writes to: the modules' files have it then. Each file is
// opened once.
#pragma once

#include "libc/target_modules.h"

enum { AS_CONSTANT_FILES = 8 }; // open at a time: names and tables of one class are mostly in one module

struct as_constants {
    struct as_modules *modules;
    struct as_module files[AS_CONSTANT_FILES]; // opened; elf.fd -1: it cannot be read
    unsigned count, next;                      // of files: used; the next to be replaced
};

void as_constants_begin(struct as_constants *c, struct as_modules *modules);
// Reads at most `length` bytes, from memory as far as it is there, and then from the file. Returns how many. A file that cannot be
// read, though it could be before, is noted in the modules (missing).
size_t as_constants_read(struct as_constants *c, uint64_t address, void *buffer, size_t length);
void as_constants_end(struct as_constants *c);
