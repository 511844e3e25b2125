// SPDX-License-Identifier: MIT
// The records that a capture makes, and that a dump file holds: what one stage writes the next reads, in memory or mapped
// from a file. docs/dump-format.md specifies them for other readers. Little-endian, natural alignment, fixed size; sizes and
// addresses in bytes. AS_UNKNOWN (all ones) in a 64-bit field means "not known". A change of a record's meaning or order
// raises AS_DUMP_MAJOR; a new section or a field that takes a reserved place raises AS_DUMP_MINOR (dump/format.h).
#pragma once

#include "model/enums.h"
#include "model/rows.h"

#include <stdint.h>

// Section "meta": one record.
struct as_meta_record {
    uint32_t target_kind; // as_target_kind
    uint32_t arch;        // ELF e_machine
    uint32_t page_size;
    uint32_t pid;
    uint32_t thread_count;
    uint32_t malloc_kind; // as_malloc_kind, of those that 1.0 knew; see malloc_later
    uint32_t mode;        // as_mode
    uint32_t flags;       // AS_META_*
    uint64_t time_ns;     // of the snapshot, since the epoch, CLOCK_REALTIME
    uint64_t pause_ns;    // how long the target stood still
    uint64_t read_ns;     // how long the reading took
    uint64_t torn_chunks; // chunks at which the walk lost the thread
    uint64_t rss, swap;   // of the whole process, from its page tables
    char comm[16];
    uint32_t exe, cmdline, malloc_detail, tool_version; // in "strings"
    uint32_t ruby;                                      // as_ruby_state (1.1)
    uint32_t ruby_releases;                             // in "strings": which have the structures found, "3.2, 3.3"
    uint64_t malloc_later; // as_malloc_kind if it came later (1.2), and malloc_kind is 0; else 0
    uint64_t reserved[6];
};
enum {
    AS_META_RESIDENCY_KNOWN = 1,
    AS_META_HAS_CHUNKS = 2,
    AS_META_EXACT = 4, // stopped, nothing torn, no warning that touches a number: the rows sum to rss
};
// Is there a Ruby, and are its pages in section "ruby"?
enum as_ruby_state { AS_RUBY_NONE = 0, AS_RUBY_FOUND = 1, AS_RUBY_UNPROVEN = 2 };

// Section "mallocs": each glibc malloc found; the first is the program's own.
struct as_malloc_record {
    uint32_t path, version, build_id, layout_versions; // in "strings"
    uint32_t layout_source;                            // as_layout_source
    uint32_t proven;
    uint64_t main_arena, mp;
    uint64_t trim_threshold, top_pad, mmap_threshold, arena_max, arena_test, no_dyn_threshold, tcache_count,
        tcache_max_bytes, thp_pagesize, hp_pagesize;
    uint64_t n_mmaps, mmapped_mem; // what mp_ says, to hold against what the walk found
    uint64_t heap_max_size;
    // Of what is in a tcache (1.2): in those that no thread has, after a fork say, and that nobody can take out again.
    uint64_t lost_known; // 0: whether there are such is not known
    uint64_t lost_tcaches, lost_chunks, lost_bytes;
};

struct as_tally {
    uint64_t count, bytes; // chunks, and the sum of their chunk sizes (headers included)
};
struct as_tallies {
    struct as_tally in_use, tcache, fastbin, binned, top, mmapped;
};

// Section "totals": one record, the whole process.
struct as_totals_record {
    struct as_ledger ledger;
    struct as_tallies chunks;
};

// Section "arenas". Order: the ring of each malloc, main arena first.
struct as_arena_record {
    uint64_t address;
    uint32_t malloc_index; // in "mallocs"
    uint32_t flags;        // AS_ARENA_*
    uint64_t system_mem, max_system_mem;
    uint64_t attached_threads;       // as glibc counts; AS_UNKNOWN before 2.23
    uint64_t top;                    // address
    uint32_t first_heap, heap_count; // in "heaps"
    uint64_t torn_chunks;
    struct as_ledger ledger;
    struct as_tallies chunks;
};
enum { AS_ARENA_MAIN = 1, AS_ARENA_NONCONTIGUOUS = 2, AS_ARENA_CORRUPT = 4, AS_ARENA_LOCKED = 8 };

enum as_heap_kind {
    AS_HEAP_BRK = 1,     // a segment of the main arena that came from brk
    AS_HEAP_MMAP = 2,    // a segment of the main arena that came from mmap when brk failed
    AS_HEAP_THREAD = 3,  // a heap of a thread arena
    AS_HEAP_MMAPPED = 4, // one mmapped chunk
};

// Section "heaps": each contiguous region that malloc holds, in order of arena, then address; mmapped chunks last.
struct as_heap_record {
    uint64_t start, end; // start: of the heap_info, or of the segment; end: of what malloc uses (heap_info.size)
    uint32_t arena;      // in "arenas"; UINT32_MAX for an mmapped chunk
    uint32_t kind;       // as_heap_kind
    uint64_t first_page; // in "pages"; the first record is for the page that holds `start`
    uint64_t page_count;
    uint64_t first_chunk;   // in "chunks"
    uint64_t chunk_count;   // 0 without --chunks
    uint64_t protected_end; // end of the read-write part (heap_info.mprotect_size); else = end
    uint64_t reserved[2];
};

// Section "pages": one record for each page of each heap. The seven counts are in units of 16 bytes (MALLOC_ALIGNMENT),
// so a page of up to 64 KiB fits; they add up to the page, or to less where the page is not all the heap's.
struct as_page_record {
    uint16_t in_use, tcache, fastbin, binned, top, metadata, unknown;
    uint8_t residency; // AS_RES_* bits
    uint8_t state;     // as_page_state
};
enum { AS_UNIT = 16 };

// What a picture shows of a page: the strongest claim on it.
enum as_page_state {
    AS_PAGE_USED = 1,       // resident, something in use (or metadata) on it
    AS_PAGE_PINNED = 2,     // as USED, but by ONE chunk in use, all else on the page free: a pin
    AS_PAGE_CACHED = 3,     // resident, nothing in use, tcache or fastbin chunks on it
    AS_PAGE_STRANDED = 4,   // resident, all free, but no trim returns it (a free chunk's header page, say)
    AS_PAGE_RELEASABLE = 5, // resident, malloc_trim(0) returns it
    AS_PAGE_WITHHELD = 6,   // resident, only a deep trim returns it
    AS_PAGE_RETURNED = 7,   // absent and free
    AS_PAGE_UNTOUCHED = 8,  // absent, in use or top
    AS_PAGE_SWAPPED = 9,
    AS_PAGE_UNKNOWN = 10, // residency not known, or skipped by the walk
};

// Section "chunks" (with --chunks): 32 bits each, in address order within a heap, without gaps: a chunk's address is its
// heap's `start` plus the sizes of those before it. Bits 0-27: size in units of 16 bytes; bit 28: the chunk goes on in
// the next record (sizes from 4 GiB); bits 29-31: as_chunk_class.
enum as_chunk_class {
    AS_CHUNK_UNKNOWN = 0, // skipped by the walk
    AS_CHUNK_IN_USE = 1,
    AS_CHUNK_TCACHE = 2,
    AS_CHUNK_FASTBIN = 3,
    AS_CHUNK_BINNED = 4,
    AS_CHUNK_TOP = 5,
    AS_CHUNK_METADATA = 6, // headers, fenceposts, tcache structs, alignment
};
enum { AS_CHUNK_SIZE_BITS = 28, AS_CHUNK_MORE = 1 << 28, AS_CHUNK_CLASS_SHIFT = 29 };

// Section "sizes": one record for each chunk size seen, ascending. Pins: see docs/ledger.md.
struct as_size_record {
    uint64_t chunk_size;
    uint64_t in_use, tcache, fastbin, binned; // counts
    uint64_t pin_count;                       // chunks in use that stand alone on at least one page
    uint64_t pin_pages;                       // resident pages kept by them
    uint64_t pin_stranded;                    // free bytes on those pages
    uint64_t tail_count;                      // of those in use: the last of a heap, with at least a page free below it
    uint64_t tail_bytes;                      // bytes of the free run just below such chunks, resident or not
};

// Section "threads".
struct as_thread_record {
    uint32_t tid;
    uint32_t arena; // in "arenas"; UINT32_MAX when not known or none
    char name[16];
    uint64_t tcache;       // address of its tcache_perthread_struct; AS_UNKNOWN when not found; 0: it has none
    uint64_t tcache_count; // chunks cached; AS_UNKNOWN likewise
    uint64_t tcache_bytes;
    uint64_t reserved;
};

// Section "mappings": every mapping of the process.
struct as_mapping_record {
    uint64_t start, end;
    uint32_t prot, kind; // AS_PROT_*, as_mapping_kind
    uint32_t path;       // in "strings"
    uint32_t role;       // as_mapping_role: in which row the part that is not malloc's stands
    uint64_t rss, swap;
    uint64_t malloc_rss; // the part of rss that stands in malloc's rows
    uint64_t hugetlb;
};
enum as_mapping_role { AS_ROLE_OTHER = 0, AS_ROLE_STACK = 1, AS_ROLE_UNKNOWN = 2 };

// Section "ruby" (1.1): each page of a Ruby's own heap, by address.
struct as_ruby_page_record {
    uint64_t address;
    uint64_t resident;    // bytes of it on resident pages; AS_UNKNOWN where residency is not known
    uint32_t size;        // bytes
    uint32_t slot_size;   // bytes; 0: not divided into slots
    uint32_t total_slots; // objects it has room for
    uint32_t free_slots;  // those without one
    uint32_t heap;        // in "heaps", when it is a chunk of malloc's; UINT32_MAX: a mapping of its own
    uint32_t reserved;
};

// Section "warnings": in the order they came up.
struct as_warning_record {
    uint32_t text;    // in "strings"
    uint32_t code;    // as_warning
    uint32_t arena;   // in "arenas"; UINT32_MAX
    uint32_t heap;    // in "heaps"; UINT32_MAX
    uint64_t address; // AS_UNKNOWN when it is about no address
};
enum as_warning {
    AS_WARN_NOTE = 0,      // worth knowing; touches no number
    AS_WARN_CORRUPT = 1,   // the walk lost the thread here
    AS_WARN_RESIDENCY = 2, // residency not known, or not wholly
    AS_WARN_TCACHE = 3,    // a thread's tcache was not found
    AS_WARN_MMAPPED = 4,   // mmapped chunks found differ from mp_'s count
    AS_WARN_SUM = 5,       // the rows do not sum to Rss
    AS_WARN_LOCKED = 6,    // an arena was locked when we looked
    AS_WARN_ALLOCATOR = 7, // another malloc is in charge
    AS_WARN_LAYOUT = 8,    // no glibc layout could be proven
    AS_WARN_ESTIMATED = 9, // a number is right only under an assumption that the text names
};

// Section "strings": record size 1; NUL-terminated UTF-8 or whatever bytes the target had; offset 0 is "".

_Static_assert(sizeof(struct as_page_record) == 16, "dump format");
