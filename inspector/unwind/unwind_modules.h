// SPDX-License-Identifier: MIT
// The loaded modules with their tables: a sorted list that is never changed. After dlopen or dlclose there is a new one; the old one is
// readable until it is freed.
#pragma once

#include "unwind/table.h"

#include <link.h>

struct as_unwind_module {
    uintptr_t start; // the first address of its code
    uintptr_t end;
    uintptr_t bias;   // what the loader adds to the module's own addresses
    uint32_t tag;     // 0; the caller's own
    const char *name; // the loader's, as it was; "" the program
    struct as_unwind_table table;
};

struct as_unwind_modules {
    uint64_t
        generation; // differs from every other list's in this process: what a row cache holds of another list is not found
    uint64_t changes; // how often the loader had loaded and unloaded: equal, then nothing has changed since
    size_t count;
    size_t bytes;                    // of this memory
    uint32_t missing;                // modules without a table
    uint32_t cached;                 // tables from the cache
    uint64_t lost;                   // rows whose rule cannot be expressed
    struct as_unwind_modules *newer; // for whoever keeps lists that may still be read; NULL at first
    struct as_unwind_module items[];
};

// The modules of this process. Tables are taken from `before` (which stays as it is; NULL: none) where the module is the same, else
// through the cache in `directory` (NULL: none). NULL: no memory. Takes the loader's lock (dl_iterate_phdr): not for signal handlers.
struct as_unwind_modules *as_unwind_modules_load(const struct as_unwind_modules *before, const char *directory);

// Whether the loader has loaded or unloaded anything since. Takes the loader's lock.
bool as_unwind_modules_stale(const struct as_unwind_modules *modules);

// Frees a list which nobody reads any more, and its tables but those that `kept` (NULL: none) has too.
void as_unwind_modules_free(struct as_unwind_modules *modules, const struct as_unwind_modules *kept);

// What a module's program headers say of its tables; false: there are none that could be read.
bool as_unwind_image_of(struct as_unwind_image *image, uintptr_t bias, const ElfW(Phdr) * headers, size_t count);

// The module that has this address, or NULL. Async-signal-safe.
const struct as_unwind_module *as_unwind_module_at(const struct as_unwind_modules *modules, uintptr_t address);
