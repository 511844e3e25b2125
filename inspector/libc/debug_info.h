// SPDX-License-Identifier: MIT
// Opens debug information for libdw: whatever a file claims, libdw sees a bounded copy in memory, and opens nothing itself.
#pragma once

#include "libc/elf.h"

typedef AS_VEC(uint8_t) as_byte_vec;

struct Dwarf;
struct Elf;

struct as_debug_info {
    as_byte_vec image, shared_image;
    struct Elf *elf, *shared_elf;
    struct Dwarf *dwarf;
    struct Dwarf *shared; // the part that dwz has moved to a file that several share; NULL: there is none
};

// Opens the debug information in a file: of at most `most` bytes, packed or unpacked, without or with what it shares with others.
// `roots`: below which this shared file is looked for (a negative one ends the list); NULL: not at all. Close it in either case. False: there is none, and `why` is empty; or
// why it is left out: it is cut short, too large, or refers to a file that is not there.
bool as_debug_info_open(struct as_debug_info *d, const struct as_elf *file, uint64_t most, const int *roots, char *why,
                        size_t why_size);
void as_debug_info_close(struct as_debug_info *d);

// Makes an ELF file of an object's debug information, to be freed by the caller in any case. False: as above.
bool as_dwarf_image_make(as_byte_vec *out, const struct as_elf *elf, uint64_t most, char *why, size_t why_size);
