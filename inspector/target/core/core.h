// SPDX-License-Identifier: MIT
// What the parts of the core-file backend (core.c, headers.c, notes.c, core_threads.c, core_residency.c) share.
// Internal to target/.
#pragma once

#include "target/procfs.h"
#include "target/target.h"

// One PT_LOAD. Sorted by start, never overlapping.
struct as_segment {
    uint64_t start, end; // addresses, end by p_memsz
    uint64_t offset;     // in the core file
    uint64_t size;       // p_filesz: how many bytes from `start` on are in the file
    uint32_t prot;       // AS_PROT_*
};

// One entry of NT_FILE. Sorted by start, never overlapping.
struct as_core_file {
    uint64_t start, end;
    uint64_t offset; // in the mapped file, bytes
    uint32_t path;   // in base.strings
};

struct as_core {
    struct as_target base; // first: a pointer to one is a pointer to the other
    int fd;
    uint64_t file_size;
    uint64_t mtime_ns;   // of the core file
    uint64_t block_size; // of its file system
    AS_VEC(struct as_segment) segments;
    AS_VEC(struct as_core_file) files;
    AS_VEC(char) scratch;    // one NT_FILE note, or a block of data
    uint64_t expected;       // how long the file should be by its headers
    bool page_aligned;       // every PT_LOAD lies on a page boundary of the file, as in the kernel's cores
    uint32_t notes;          // how many
    uint32_t first_notes[3]; // their types: who wrote the core can be told by them
    bool by_gdb;
    uint64_t vdso, program_headers; // addresses by NT_AUXV; 0: not known
    char note[480];                 // behind base.residency_note
};

static inline struct as_core *as_core_of(struct as_target *t)
{
    return (struct as_core *)t;
}

// The segment that holds `address`, or NULL.
const struct as_segment *as_core_segment_at(const struct as_core *c, uint64_t address);
// How many bytes of the segment are really in the file: fewer than `size` when it is truncated.
uint64_t as_core_stored(const struct as_core *c, const struct as_segment *s);
// Reads up to `length` bytes of a file from `offset` on; returns how many.
size_t as_core_read_file(int fd, uint64_t offset, void *buffer, size_t length);
// The same of the core.
size_t as_core_pread(const struct as_core *c, uint64_t offset, void *buffer, size_t length);

// headers.c
// Reads the ELF header, the segments and the notes. AS_BAD_INPUT, AS_UNSUPPORTED.
bool as_core_read_headers(struct as_core *c, struct as_error *err);
// Makes base.mappings of segments and files.
bool as_core_make_mappings(struct as_core *c, struct as_error *err);

// notes.c
// Reads the notes in [offset, offset + size) of the file; stops at the first that makes no sense.
bool as_core_read_notes(struct as_core *c, uint64_t offset, uint64_t size, struct as_error *err);

// core_threads.c
// Finds the thread pointers that the kernel left out (0): the threads' descriptors in base.mappings. AS_UNKNOWN where there is none.
bool as_core_find_thread_pointers(struct as_core *c, struct as_error *err);

// core_residency.c
// Decides whether the holes of this file can be trusted to be pages without memory, and writes the residency note.
bool as_core_find_residency(struct as_core *c, struct as_error *err);
bool as_core_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err);
// Passes over holes of the file: whatever these tell of residency, what is read there is zeros.
uint64_t as_core_absent_until(struct as_target *t, uint64_t start, uint64_t end);
