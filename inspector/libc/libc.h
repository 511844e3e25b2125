// SPDX-License-Identifier: MIT
// Which malloc is this, and how is it laid out? Finds every glibc of a target (dlmopen and libc_malloc_debug.so
// give more than one; a static program has one inside), its malloc_state and malloc_par, and proves the answer.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "libc/interpreters.h"
#include "model/enums.h"
#include "target/target.h"

// Offsets in bytes; AS_NONE: the field does not exist in this version.
enum { AS_NONE = -1 };

// struct malloc_state (one per arena).
struct as_state_layout {
    int32_t size;
    int32_t mutex, flags, have_fastchunks;
    int32_t fastbins, fastbin_count; // fastbinsY and its length; AS_NONE and 0 from 2.43
    int32_t top, bins, binmap;
    int32_t next, next_free, attached_threads;
    int32_t system_mem, max_system_mem;
};

// struct malloc_par (mp_).
struct as_par_layout {
    int32_t size;
    int32_t trim_threshold, top_pad, mmap_threshold, arena_test, arena_max;
    int32_t thp_pagesize, hp_pagesize;
    int32_t n_mmaps, n_mmaps_max, no_dyn_threshold;
    int32_t mmapped_mem, sbrk_base;
    int32_t tcache_bins, tcache_max_bytes, tcache_count;
};

// heap_info and tcache_perthread_struct.
struct as_heap_layout {
    int32_t heap_info_size;    // 32, or 48 from 2.35 (pagesize)
    int32_t heap_pagesize;     // offset, or AS_NONE
    int32_t tcache_size;       // sizeof (tcache_perthread_struct); 0: this version has no tcache
    int32_t tcache_bins;       // 64, or 76 from 2.42
    int32_t tcache_count_size; // 1 (2.26-29) or 2 bytes for each count
    int32_t tcache_entries;    // offset of entries[]
    bool tcache_counts_down;   // 2.42+: num_slots, the free slots, instead of counts
    bool safe_linking;         // 2.32+
    int32_t mmap_extra;        // map size = prev_size + size + this: 0, or 16 from 2.43
};

struct as_layout {
    const char *versions; // "2.27-2.34": which releases of glibc this row describes
    const char *source;   // where the row's numbers come from
    struct as_state_layout state;
    struct as_par_layout par;
    struct as_heap_layout heap;
};

// Who answers malloc() in the target.

// One glibc malloc in the target.
struct as_libc {
    struct as_layout layout;
    enum as_layout_source source;
    bool proven;         // the structural proof held on the target's memory
    bool started;        // malloc has been called: main_arena.top is not the initial one
    uint32_t path;       // in the target's strings
    char version[16];    // "2.36", from the file's own banner; "" when unknown. Reported, never keyed upon.
    char build_id[41];   // hex; "" when it has none
    uint64_t base;       // load bias
    uint64_t main_arena; // address in the target
    uint64_t mp;         // address in the target; AS_UNKNOWN when not found
    // Offsets from the thread pointer of the TLS variables of malloc.c, when the symbols or DWARF tell; else AS_UNKNOWN.
    // They are found by scanning then (malloc/threads.c). Two's complement: negative on x86-64.
    uint64_t tls_tcache, tls_thread_arena;
    // Where malloc's own code lies in the target, and all code of its object. 0 and 0: not known (a stripped static
    // program).
    uint64_t malloc_start, malloc_end, code_start, code_end;
};

typedef AS_VEC(struct as_libc) as_libc_vec;

struct as_malloc {
    enum as_malloc_kind kind; // who answers malloc()
    char detail[128];         // in words: "libjemalloc.so.2 is preloaded", or what was tried and not found
    char left_out[320];       // which debug information was not read, and why; "": none was left out
    uint64_t go_program;      // where the program is mapped, if Go's linker made it; 0: another did
    struct as_interpreter_objects interpreters;
    uint32_t
        loaded;     // a bit (1 << as_malloc_kind) for each other allocator that an object has, whoever answers malloc()
    size_t objects; // how many ELF objects were inspected; 0: not all that could be a libc
    as_libc_vec libcs; // each glibc malloc found; [0] is the one that the program uses by default
};

// What may be used, for tests and for people who doubt an answer: a bit per as_layout_source.
#define AS_LAYOUT_ANY 0xffu

// Inspects the target's mapped files and, for the proof, at its memory. Success also when there is no glibc at all
// (kind says what was found instead; libcs is empty). Does not need the target to be stopped.
bool as_malloc_find(struct as_target *t, uint32_t allowed_sources, struct as_malloc *out, struct as_error *err);
void as_malloc_free(struct as_malloc *m);

// Proves main_arena (and mp_, if known) on the target's memory as it is now: the ring of next pointers closes, each
// top lies in mapped writable memory, bins are doubly linked. `why` (any size) gets the first thing that did not hold.
bool as_libc_prove(struct as_target *t, const struct as_libc *libc, char *why, size_t why_size);

const char *as_malloc_kind_name(enum as_malloc_kind kind);       // as in the JSON: "glibc", "jemalloc", ...
const char *as_layout_source_name(enum as_layout_source source); // "dwarf", "symtab", ...
