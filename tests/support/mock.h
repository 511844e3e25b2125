// SPDX-License-Identifier: MIT
// A target without a process: mappings, threads and the residency of pages as a test lays them down, and malloc's
// structures in them as glibc writes them. The builders (mock_malloc.c) use the layout's offsets and glibc's rules, and none
// of the code under test. Damage is a poke.
//
// The bytes are real memory of the test program, at the same addresses as in the target: trim/ works on memory in place.
#pragma once

#include "libc/layouts.h"
#include "libc/libc.h"
#include "malloc/heaps.h"
#include "model/enums.h"
#include "support/check.h"
#include "target/target.h"

enum { MOCK_REGIONS = 64, MOCK_GRANULE = 64 * 1024 };

// A stretch of memory that is there. Its mapping is found by address: the vector of mappings grows.
struct mock_region {
    uint64_t start, end;
    uint8_t *residency; // a byte of AS_RES_* for each page
    bool mapped;        // by mock_map
};

struct mock {
    struct as_target target; // the first member: the operations find the mock by it
    struct as_malloc malloc;
    const as_span_vec *foreign; // pages of another allocator that are known; NULL: none
    struct mock_region regions[MOCK_REGIONS];
    size_t region_count;
    uint64_t reads, bytes_read; // what the code under test has cost
    uint64_t refused;           // a page whose residency the kernel does not tell; 0: none
    bool kernel_residency;      // mincore answers for residency: a test of trim/
    uint64_t heap_bytes;        // HEAP_MAX_SIZE: 64 MiB
    uint64_t next_libc, next_stack;
};

// A stopped process with pages of `page_size` bytes (0: this machine's), without any mapping.
struct mock *mock_new(uint32_t page_size);
void mock_free(struct mock *m);

// Writable private anonymous memory, zeroed, all of its pages present; a file's where `path` begins with a slash. `start`: a
// multiple of MOCK_GRANULE. What is returned is valid until the next mapping is added.
struct as_mapping *mock_map(struct mock *m, uint64_t start, uint64_t length, const char *path);
// Takes memory that is there already (what sbrk gave).
struct as_mapping *mock_adopt(struct mock *m, uint64_t start, uint64_t length, const char *path);
// Makes two mappings of the one that holds `address`, both of present pages.
void mock_split(struct mock *m, uint64_t address);
void mock_pages(struct mock *m, uint64_t from, uint64_t to, uint8_t residency);

uint64_t mock_peek(const struct mock *m, uint64_t address);
void mock_poke(struct mock *m, uint64_t address, uint64_t value);
void mock_poke32(struct mock *m, uint64_t address, uint32_t value);
void mock_poke16(struct mock *m, uint64_t address, uint16_t value);

// --- glibc ---

// One arena as it is being written, chunk after chunk.
struct mock_arena {
    struct mock *m;
    uint32_t libc;
    uint64_t address; // malloc_state
    bool main;
    uint64_t heap;     // heap_info, or the segment's beginning
    uint64_t at, end;  // the next chunk; the end of the memory at hand
    uint64_t in_heaps; // bytes of the heaps before this one
};

// A libc of this release ("2.36"): a writable mapping of its file with malloc_state and malloc_par as the linker left them,
// and as malloc_init leaves them: bins that are empty, a ring of one arena. Returns its index.
uint32_t mock_libc(struct mock *m, const char *release);
struct as_libc *mock_libc_at(struct mock *m, uint32_t libc);
// The address of a field of mp_ (an offset of as_par_layout).
uint64_t mock_mp(struct mock *m, uint32_t libc, int32_t offset);

// The main arena, with its first segment at `start`: mapped here, named [heap].
struct mock_arena mock_main(struct mock *m, uint32_t libc, uint64_t start, uint64_t length);
// A thread arena, whose first heap is at `start` (a multiple of HEAP_MAX_SIZE), of which `length` bytes are writable.
struct mock_arena mock_arena(struct mock *m, uint32_t libc, uint64_t start, uint64_t length);
// The arena goes on in another heap or segment: fenceposts end this one. The rest of it must be FENCES bytes.
enum { MOCK_FENCES = 32 };
void mock_next_heap(struct mock_arena *a, uint64_t start, uint64_t length);
// All that is left becomes the top.
void mock_top(struct mock_arena *a);

// A chunk in use of this size (header included). Returns its address: of prev_size.
uint64_t mock_chunk(struct mock_arena *a, uint64_t size);
// Frees it as free() does: into the unsorted bin, or as malloc sorts: into the bin of its size. It must have a successor.
void mock_unsorted(struct mock_arena *a, uint64_t chunk);
void mock_bin(struct mock_arena *a, uint64_t chunk);
void mock_fast(struct mock_arena *a, uint64_t chunk);
// A tcache_perthread_struct in a chunk of this arena; returns the struct's address. And a chunk into it.
uint64_t mock_tcache(struct mock_arena *a);
void mock_cache(struct mock *m, uint32_t libc, uint64_t tcache, uint64_t chunk);
// How a list's link is written at `position`.
uint64_t mock_link(struct mock *m, uint32_t libc, uint64_t position, uint64_t to);

// A chunk with a map of its own, `length` bytes of pages at `start`, which must be mapped. mp_ counts it.
void mock_mmapped(struct mock *m, uint32_t libc, uint64_t start, uint64_t length);
// As aligned_alloc leaves it: the chunk begins `lead` bytes into the map.
void mock_mmapped_aligned(struct mock *m, uint32_t libc, uint64_t start, uint64_t length, uint64_t lead);

// A thread with a block of static TLS around its thread pointer. Its variables: libc's `tcache` and `thread_arena`.
enum { MOCK_TLS_TCACHE = 64, MOCK_TLS_ARENA = 80 }; // distances from the thread pointer
size_t mock_thread(struct mock *m, pid_t tid, uint64_t tcache, uint64_t arena);
uint64_t mock_tls(const struct mock *m, size_t thread, int distance);
