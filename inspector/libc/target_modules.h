// SPDX-License-Identifier: MIT
// The ELF objects that a target has mapped: each file once for every load bias it is mapped at, so the second libc of a
// dlmopen namespace is a module of its own; in the order in which ld.so searches them, where that is known.
#pragma once

#include "libc/interpreters.h"

#define AS_NO_ORDER UINT32_MAX

struct as_module {
    uint32_t first_mapping, mapping_count; // in the target's mappings; others may lie between
    uint64_t start, end;                   // address of its first and after its last mapping
    uint64_t inode;                        // of its file, with the two below: what tells it from another one later
    uint32_t dev_major, dev_minor;
    uint64_t base;          // load bias
    struct as_elf elf;      // headers only, until as_module_open gives it something to read from
    bool has_file;          // its file can be had; else its pages in the target's memory must do
    uint64_t link_map;      // address of ld.so's struct link_map of it; 0: not known
    uint32_t order;         // place in the main namespace's search order; AS_NO_ORDER: in none, or not known
    bool is_program;        // has an interpreter, or needs none: the program, not a library
    bool defines_malloc;    // exports a function of that name
    bool has_chromium_shim; // exports the functions that Chromium's allocators are put behind
    uint32_t interpreters;  // as_interpreters_in()
    bool is_jemalloc, is_tcmalloc, is_mimalloc, is_asan; // by functions that it exports besides
};

struct as_modules {
    struct as_target *target;
    bool ordered; // ld.so's own list could be read
    bool cut;     // there are more than we inspect
    // Files of which a core leaves something out that cannot be read here: how many, and a mapping of the first of them.
    uint32_t missing, first_missing;
    AS_VEC(struct as_module) list;
};

// Finds them. Success also when there is none; false when memory ran out.
bool as_modules_find(struct as_modules *modules, struct as_target *t, struct as_error *err);
void as_modules_free(struct as_modules *modules);
// After the target's mappings were read anew: makes first_mapping right again, and drops objects that are not there any more. Opens
// nothing, so that it may be called while the target stands still.
void as_modules_refresh(struct as_modules *modules);
// Whether a mapping is of the object's file.
bool as_module_has(const struct as_modules *modules, const struct as_module *module, const struct as_mapping *m);

// For a single object: fills in the rest of a module of which first_mapping and start are known, and makes module->elf readable; to
// be undone with as_module_close. False: it is no object, or can be read nowhere; nothing is to be undone.
bool as_module_open_first(const struct as_modules *modules, struct as_module *module);

// Makes module->elf readable; to be undone with as_module_close. (Not all at once: a process may have more objects
// than we may have files open.)
bool as_module_open(const struct as_modules *modules, struct as_module *module);
void as_module_close(struct as_module *module);

// The segment of an object, code or constant data, that has all of [start, end). Nobody has written to it if a core leaves it out.
// NULL: there is none. Not in the agent.
const struct as_elf_load *as_module_constant_at(const struct as_modules *modules, const struct as_module *module,
                                                uint64_t start, uint64_t end);

// The last part of the path of a module's file.
const char *as_module_name(const struct as_modules *modules, const struct as_module *module);

// Writes the module's writable range number `index` (its own data and the .bss behind it) to *start and *end; false when
// it has no so many.
bool as_module_writable(const struct as_modules *modules, const struct as_module *module, unsigned index,
                        uint64_t *start, uint64_t *end);
