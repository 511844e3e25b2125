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
    uint64_t bytes;       // that were read or unpacked for both images, in vain or not: the work
    struct Dwarf *shared; // the part that dwz has moved to a file that several share; NULL: there is none
};

// In the image of a package: so many files, whose headers lie so many bytes apart.
struct as_debug_files {
    uint32_t count, step;
    uint64_t bytes; // that were read or unpacked, in vain or not: the work
};

// Opens the debug information in a file: of at most `most` bytes, packed or unpacked, with or without what it shares
// with others. `lines`: with the table of source lines, which only call stacks need. `roots`: below which the shared
// file is searched for (a negative one ends the list); NULL: not at all. Close it in either case. False: there is none,
// and `why` is empty; or why it is left out: it is cut short, too large, or refers to a file that is not there.
bool as_debug_info_open(struct as_debug_info *d, const struct as_elf *file, uint64_t most, const int *roots, bool lines,
                        char *why, size_t why_size);
// The same of a .dwo file, which has what the compiler left out of the object files.
bool as_debug_info_open_split(struct as_debug_info *d, const struct as_elf *file, uint64_t most, char *why,
                              size_t why_size);
// The bytes of a section, unpacked; NULL: there are none. libdw knows of no section that is not for it.
const uint8_t *as_debug_info_section(const struct as_debug_info *d, const char *name, uint64_t *size);
// The same of a file in a package, of which as_dwarf_package_make made this image. The image must outlive it.
bool as_debug_info_open_packed(struct as_debug_info *d, const as_byte_vec *image, const struct as_debug_files *files,
                               uint32_t which);
void as_debug_info_close(struct as_debug_info *d);

// A section of debug information, which may be packed: SHF_COMPRESSED, or ".zdebug_", GNU's older way to say so. At first all zero.
struct as_debug_section {
    Elf64_Shdr header;
    uint32_t index;
    bool older;       // has the older name
    char name[32];    // its own
    uint64_t size;    // unpacked, by its own word
    uint32_t packing; // ELFCOMPRESS_*; 0: it is not packed
    uint32_t skip;    // bytes before the packed ones
};

// The next section of that name (".debug_info"), by either spelling. False: there is none.
bool as_debug_section_next(const struct as_elf *elf, const char *name, struct as_debug_section *s);
// Finds out size, packing and skip. False: `why`.
bool as_debug_section_measure(const struct as_elf *elf, struct as_debug_section *s, char *why, size_t why_size);
// Appends the unpacked bytes, of a size that the caller allows. False: `why`, and nothing is appended.
bool as_debug_section_unpack(as_byte_vec *out, const struct as_elf *elf, const struct as_debug_section *s, char *why,
                             size_t why_size);

// Makes an ELF file of an object's debug information, to be freed by the caller in any case. Nothing is packed in it.
// *bytes: how many were read or unpacked, in either case. False: as above.
bool as_dwarf_image_make(as_byte_vec *out, const struct as_elf *elf, uint64_t most, bool lines, uint64_t *bytes,
                         char *why, size_t why_size);
// The same of a .dwo file's.
bool as_dwarf_image_make_split(as_byte_vec *out, const struct as_elf *elf, uint64_t most, uint64_t *bytes, char *why,
                               size_t why_size);
// The same of a package of .dwo files (.dwp).
bool as_dwarf_package_make(as_byte_vec *out, const struct as_elf *elf, uint64_t most, struct as_debug_files *files,
                           char *why, size_t why_size);
