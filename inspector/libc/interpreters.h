// SPDX-License-Identifier: MIT
// The objects of a target that have an interpreter's code: known by the names that they define, whatever the file is called.
#pragma once

#include "libc/elf.h"

enum as_interpreter_kind {
    AS_INTERPRETER_CPYTHON = 1,
    AS_INTERPRETER_PHP = 2,
    AS_INTERPRETER_RUBY = 4,
};

struct as_interpreter_objects {
    uint32_t count;
    uint32_t left_out; // objects with an interpreter for which there was no room: nothing is searched for in them
    struct {
        struct as_range at; // from its first to its last mapping
        uint32_t kinds;     // as_interpreter_kind
    } items[32];
};

// Which interpreters the object has, a bit for each: by .dynsym; a program that exports nothing, by the section that CPython names for
// debuggers from 3.11 on.
uint32_t as_interpreters_in(const struct as_elf *elf, bool is_program);

// Adds an object that has some. Those for which there is no room are counted.
void as_interpreters_add(struct as_interpreter_objects *objects, struct as_range at, uint32_t kinds);

// Where the first object that has this interpreter begins; 0: none has it.
uint64_t as_interpreters_first(const struct as_interpreter_objects *objects, enum as_interpreter_kind kind);

// Whether the mapping is of a file, in the range of an object that has this interpreter.
bool as_interpreters_have(const struct as_interpreter_objects *objects, enum as_interpreter_kind kind,
                          const struct as_mapping *m);
