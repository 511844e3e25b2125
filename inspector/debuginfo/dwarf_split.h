// SPDX-License-Identifier: MIT
// The .dwo files of a module (-gsplit-dwarf), which have what its debug information leaves out, or a package of them (.dwp). The
// compiler wrote them where the skeletons say. There may be several of one name: in a container and outside, of builds before and after.
// Each has an id, which must be the skeleton's: the first file that has it is taken.
#pragma once

#include "debuginfo/dwarf_index.h"

// Below which files are searched for: first the target's, then this machine's.
enum { AS_DWARF_ROOTS = 2 };

// Where the .dwo files of a module may be.
struct as_dwarf_places {
    const struct as_elf *packages; // its .dwp files, one for each root; fd -1: there is none
    const char *path;              // the module's; "": not known
    const int *roots;              // a negative one ends the list
};

struct as_dwarf_splits {
    AS_VEC(struct as_debug_info) list; // opened, for as long as the index is used
    AS_VEC(as_byte_vec) packages;      // the images of several of these
};

// Adds what the skeletons of the module that was added last leave out. *room: how many bytes of debug information there may still be. `why`
// says what could not be read, and is empty if all was. False: AS_NO_MEMORY.
bool as_dwarf_splits_add(struct as_dwarf_splits *s, struct as_dwarf_index *x, const struct as_dwarf_module *of,
                         const struct as_dwarf_places *places, uint64_t *room, char *why, size_t why_size,
                         struct as_error *err);
void as_dwarf_splits_close(struct as_dwarf_splits *s);
