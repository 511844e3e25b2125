// SPDX-License-Identifier: MIT
// Addresses of code → functions with their source lines: debug information first (a separate file of the same build-id too), symbol
// tables where there is none, a perf map for code that is in no module. Each address is looked up once.
#pragma once

#include "base/number_map.h"
#include "symbolize/functions.h"
#include "symbolize/lines.h"

struct as_places_module;

// Opens the file that the process has mapped at an address, whatever became of its name. -1: it cannot be opened.
typedef int as_places_open(void *context, uint64_t address);

struct as_places_found {
    uint32_t first, count; // in places
};

struct as_places {
    struct as_strings strings;
    as_place_vec places;
    AS_VEC(struct as_places_module) modules;
    AS_VEC(struct as_places_found) found;
    struct as_number_map cache; // module and offset → index in found + 1
    struct as_functions jit;
    int root; // a second directory below which files are searched for, if has_root
    bool has_root, root_is_sure;
    as_places_open *open_mapped; // NULL: nobody knows the process
    void *context;
};

// Files are searched for below `root` (a container's root directory), too, and first. It is closed with the places. `sure`: it is the
// root of the process that has the modules. Else only files of a known build-id are taken from there.
void as_places_set_root(struct as_places *p, int root, bool sure);

// Where the file of a module is deleted, or another build has its name, the mapped one is asked for. It is taken if it has the module's
// build-id.
void as_places_set_open(struct as_places *p, as_places_open *open, void *context);

// A module by its path, build-id (hexadecimal, "": none) and an address of its code in the process; returns its number,
// or UINT32_MAX for AS_NO_MEMORY. Its file is opened when its first address is asked for, and used if it still has this
// build-id.
uint32_t as_places_add_module(struct as_places *p, const char *path, const char *build_id, uint64_t start,
                              struct as_error *err);

// The functions of a process's code that is in no module, by a perf map below the root that was set, else below ours.
bool as_places_add_perf_map(struct as_places *p, const char *path, unsigned owner, struct as_error *err);

enum { AS_PLACES_JIT = UINT16_MAX }; // instead of a module: the offset is an address

// The functions at an address of a module (as the module counts: without its load bias), innermost first; of a return address, pass the
// address before it. At least one: where nothing is known, it has no name. NULL: AS_NO_MEMORY. Valid until the next call.
const struct as_code_place *as_places_at(struct as_places *p, uint32_t module, uint64_t address, size_t *count,
                                         struct as_error *err);

void as_places_free(struct as_places *p);
