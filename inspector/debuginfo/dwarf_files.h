// SPDX-License-Identifier: MIT
// The debug information of a target's modules: its files are opened before the target is stopped, and read on a thread of its own while
// the target is inspected. The thread works on copies in memory (debug_info.h), and asks nothing of the target.
#pragma once

#include "debuginfo/dwarf_index.h"
#include "libc/target_modules.h"

#include <pthread.h>

// The .dwo files of a module (-gsplit-dwarf), which have what its debug information leaves out, or a package of them (.dwp). The
// compiler wrote them where the skeletons say. There may be several of one name: in a container and outside, of builds before and after.
// Each has an id, which must be the skeleton's: the first file that has it is taken.

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

// That of one module.
struct as_dwarf_file {
    struct as_elf elf,
        packages[AS_DWARF_ROOTS]; // of files that stay open; fd -1: there is no .dwp file below that root
    uint64_t base;
    uint32_t module;
    char name[61];             // the module's
    uint32_t path;             // the module's, in the files' paths
    struct as_debug_info info; // once it is unpacked
};

// All zero is that of a target without debug information.
struct as_dwarf_files {
    AS_VEC(struct as_dwarf_file) list;
    struct as_strings paths;
    struct as_dwarf_splits splits;
    bool opened;
    int roots[AS_DWARF_ROOTS +
              1]; // below which files are searched for: the target's, if it can be had; this machine's; -1
    // Once as_dwarf_files_read has returned:
    struct as_dwarf_index index;
    char left_out[700]; // why a module's debug information was not read, though there is some; "": it was not left out
    pthread_t reader;
    struct as_error err; // of the reader
    bool reading;        // there is a reader
    bool wanted, read, ok;
};

// Opens what there is: files, of this machine and of the target's. False: AS_NO_MEMORY. Close it in either case, at the address at which it
// was opened.
bool as_dwarf_files_open(struct as_dwarf_files *f, const struct as_modules *modules, struct as_error *err);
// Begins to read all of it, on a thread. A second call does nothing, and so does a call when no thread can be started.
void as_dwarf_files_begin(struct as_dwarf_files *f);
// Why debug information is missing where it was wanted (left_out); NULL: none is, or none was wanted.
const char *as_dwarf_files_left_out(const struct as_dwarf_files *f);
// Has all of it read: waits for the thread, or does its work. False: AS_NO_MEMORY.
bool as_dwarf_files_read(struct as_dwarf_files *f, struct as_error *err);
void as_dwarf_files_close(struct as_dwarf_files *f);
