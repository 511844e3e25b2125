// SPDX-License-Identifier: MIT
// Mappings, threads and ranges of a target.
#pragma once

#include "model/enums.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct as_target;

// Addresses [start, end).
struct as_range {
    uint64_t start, end;
};

// One line of /proc/PID/smaps, or one PT_LOAD (with NT_FILE) of a core. Sorted by start, never overlapping.
struct as_mapping {
    uint64_t start, end;
    uint64_t offset; // in the file, bytes
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t prot; // AS_PROT_*
    enum as_mapping_kind kind;
    uint32_t path;      // in as_target.strings, as the kernel prints it ("" when it has no name), newlines unescaped
    uint64_t rss;       // bytes, smaps Rss; AS_UNKNOWN in a core, and until it is counted
    uint64_t shared;    // bytes of a private mapping that others map too, since a fork or by KSM; likewise
    uint64_t anonymous; // bytes, smaps Anonymous; likewise
    uint64_t swap;      // bytes, smaps Swap; likewise
    uint64_t hugetlb;   // bytes, smaps Private_Hugetlb + Shared_Hugetlb (never part of Rss); likewise
    uint64_t kernel_page_size; // bytes, smaps KernelPageSize: 2 MiB for hugetlb mappings
    bool recorded;             // its residency is in target.residency.runs
    bool not_inherited;        // a child gets it empty or not at all (MADV_DONTFORK, MADV_WIPEONFORK)
    bool out_of_reach;         // likewise, and a clone is what we inspect: counted in the target, and never read
    bool prot_unknown;         // a core does not say what may be done with it: AS_PROT_READ at the least
    bool droppable;            // the kernel may take it at any time (MAP_DROPPABLE)
    bool noreserve;            // mapped with MAP_NORESERVE. False where its counts are not known
    bool locked; // in memory (mlock): madvise gives nothing of it back. False where its counts are not known
};

// Pages of which the kernel said the same (AS_RES_* bits, not 0).
struct as_page_run {
    uint64_t start, end;
    uint8_t residency;
};

enum { AS_GENERAL_REGISTERS = 31 }; // x0 to x30 of aarch64; x86-64 has 15 besides rsp

struct as_thread {
    pid_t tid;
    char name[16]; // "" when not known (cores)
    uint64_t tp;   // thread pointer (fs_base, TPIDR_EL0); AS_UNKNOWN when the thread could not be stopped
    uint64_t sp, pc;
    uint64_t general[AS_GENERAL_REGISTERS]; // in no order; 0 where there are fewer, or none is known
};

// The index of the first mapping that ends behind `address`; mappings.count when there is none.
size_t as_target_mapping_from(const struct as_target *t, uint64_t address);

// The mapping that holds `address`, or NULL.
const struct as_mapping *as_target_mapping_at(const struct as_target *t, uint64_t address);

// Does an address lie in memory that can be run?
static inline bool as_target_is_code(const struct as_target *t, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    return m && m->prot & AS_PROT_EXEC;
}

// Whether the mapping may be of a program's or library's file: those on tmpfs are AS_MAP_SHMEM.
static inline bool as_mapping_of_file(const struct as_mapping *m)
{
    return m->kind == AS_MAP_FILE || m->kind == AS_MAP_SHMEM;
}
