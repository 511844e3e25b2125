// SPDX-License-Identifier: MIT
// The kinds of things that the records name. The numbers are those of the dump file: docs/dump-format.md.
#pragma once

#include <stdint.h>

// The value of an unknown number, null in JSON; never 0.
#define AS_UNKNOWN UINT64_MAX

enum as_target_kind { AS_TARGET_PROCESS = 1, AS_TARGET_CORE = 2, AS_TARGET_SELF = 3 };
enum as_arch { AS_ARCH_UNKNOWN = 0, AS_ARCH_X86_64 = 62, AS_ARCH_AARCH64 = 183 }; // ELF e_machine

enum as_mapping_kind {
    AS_MAP_ANON = 1, // private anonymous memory, [heap] and [stack] included
    AS_MAP_FILE = 2,
    AS_MAP_SHMEM = 3,  // tmpfs, memfd, SysV, shared anonymous
    AS_MAP_SPECIAL = 4 // vdso, vvar, vsyscall, device memory: never in Rss
};

enum { AS_PROT_READ = 1, AS_PROT_WRITE = 2, AS_PROT_EXEC = 4, AS_PROT_SHARED = 8 };

// What the kernel says about one page, as bits in a byte.
enum {
    AS_RES_PRESENT = 1, // in Rss
    AS_RES_SWAPPED = 2,
    AS_RES_ZERO = 4, // the shared zero page: readable, but not in Rss; never set together with PRESENT
    AS_RES_HUGE = 8, // part of a huge page mapped as such
    AS_RES_UNKNOWN = 0x80
};

// How main_arena and the layout were found.
enum as_layout_source {
    AS_LAYOUT_NONE = 0,
    AS_LAYOUT_DWARF = 1,
    AS_LAYOUT_SYMTAB = 2,
    AS_LAYOUT_RELOCATION = 3,
    AS_LAYOUT_DECODE = 4,
    AS_LAYOUT_SCAN = 5,
};

// Which library answers malloc().
enum as_malloc_kind {
    AS_MALLOC_UNKNOWN = 0,
    AS_MALLOC_GLIBC = 1,
    AS_MALLOC_JEMALLOC = 2,
    AS_MALLOC_TCMALLOC = 3,
    AS_MALLOC_MIMALLOC = 4,
    AS_MALLOC_MUSL = 5,
    AS_MALLOC_ASAN = 6,
    AS_MALLOC_VALGRIND = 7,
    AS_MALLOC_PARTITIONALLOC = 9, // PartitionAlloc: Chromium's, and Electron's
    AS_MALLOC_GO = 8,             // a Go program without cgo: its own heap, no malloc at all
};

// How the target was kept consistent.
enum as_mode { AS_MODE_FREEZE = 1, AS_MODE_SNAPSHOT = 2, AS_MODE_LIVE = 3, AS_MODE_IN_PROCESS = 4, AS_MODE_CORE = 5 };
