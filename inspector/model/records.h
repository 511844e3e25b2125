// SPDX-License-Identifier: MIT
// The records that a capture makes, and that a dump file holds. Each stage reads the records that the stage before it wrote, in
// memory or mapped from a file. docs/dump-format.md specifies them for other readers. Little-endian, natural alignment, fixed
// size; sizes and addresses in bytes. AS_UNKNOWN (all ones) in a 64-bit field means "unknown". A change of a record's meaning or
// order raises AS_DUMP_MAJOR; a new section, or a field in a reserved place, raises AS_DUMP_MINOR (dump/format.h).
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
    uint32_t malloc_kind; // as_malloc_kind, if 1.0 knew it; otherwise 0, see malloc_later
    uint32_t mode;        // as_mode
    uint32_t flags;       // AS_META_*
    uint64_t time_ns;     // time of the look, since the epoch, CLOCK_REALTIME
    uint64_t pause_ns;    // how long the target was stopped
    uint64_t read_ns;     // how long the reading took
    uint64_t torn_chunks; // number of torn chunks: the walk could not continue there
    uint64_t rss, swap;   // of the whole process, from its page tables
    char comm[16];
    uint32_t exe, cmdline, malloc_detail, tool_version; // in "strings"
    uint32_t ruby;                                      // as_ruby_state (1.1)
    uint32_t ruby_releases; // in "strings": the releases that have the structures found, "3.2, 3.3"
    uint64_t malloc_later;  // as_malloc_kind, if 1.0 did not know it (1.2): malloc_kind is 0 then; otherwise 0
    uint64_t later_rows[AS_ROW_LATER_PLACES]; // of the whole process, which have no place in a ledger (1.11)
};
enum {
    AS_META_RESIDENCY_KNOWN = 1,
    AS_META_HAS_CHUNKS = 2,
    AS_META_EXACT = 4, // stopped, nothing torn, no warning that concerns a number: the rows add up to rss
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
    uint64_t n_mmaps, mmapped_mem; // the values in mp_, to compare with the mmapped chunks that were found
    uint64_t heap_max_size;
    // Tcaches that no thread has (1.2), after a fork for example: malloc cannot use their chunks any more.
    uint64_t lost_known; // 1 if the next three are known; otherwise all four are 0
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

// Section "arenas": in the order of each malloc's ring, main arena first.
struct as_arena_record {
    uint64_t address;
    uint32_t malloc_index; // in "mallocs"
    uint32_t flags;        // AS_ARENA_*
    uint64_t system_mem, max_system_mem;
    uint64_t attached_threads;       // by glibc's count; AS_UNKNOWN before 2.23
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
// so a page of up to 64 KiB fits. Their sum is the page, or less if only a part of the page belongs to the heap.
struct as_page_record {
    uint16_t in_use, tcache, fastbin, binned, top, metadata, unknown;
    uint8_t residency; // AS_RES_* bits
    uint8_t state;     // as_page_state
};
enum { AS_UNIT = 16 };

// The state of a page that a picture shows: the strongest use of any byte on it.
enum as_page_state {
    AS_PAGE_USED = 1,   // resident, something in use (or metadata) on it
    AS_PAGE_PINNED = 2, // as USED, but with a single chunk in use, and all else on the page free: a pin
    AS_PAGE_CACHED = 3, // resident, nothing in use, tcache or fastbin chunks on it
    AS_PAGE_STRANDED =
        4, // resident and free, but no trim returns it (the links of a free chunk lie on it, for example)
    AS_PAGE_RELEASABLE = 5, // resident, malloc_trim(0) returns it
    AS_PAGE_WITHHELD = 6,   // resident, only a deep trim returns it
    AS_PAGE_RETURNED = 7,   // absent and free
    AS_PAGE_UNTOUCHED = 8,  // absent; in use, top or metadata
    AS_PAGE_SWAPPED = 9,
    AS_PAGE_UNKNOWN = 10, // residency unknown, or skipped by the walk
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
    uint64_t tail_count; // heaps whose last chunk in use has this size, with free chunks of at least a page below it
    uint64_t tail_bytes; // bytes of these free chunks, resident or not
};

// Section "threads".
struct as_thread_record {
    uint32_t tid;
    uint32_t arena; // in "arenas"; UINT32_MAX if unknown or none
    char name[16];
    uint64_t tcache;       // address of its tcache_perthread_struct; AS_UNKNOWN if not found; 0 if the thread has none
    uint64_t tcache_count; // cached chunks; AS_UNKNOWN if the tcache was not found
    uint64_t tcache_bytes;
    uint64_t reserved;
};

// Section "mappings": every mapping of the process.
struct as_mapping_record {
    uint64_t start, end;
    uint32_t prot, kind; // AS_PROT_*, as_mapping_kind
    uint32_t path;       // in "strings"
    uint32_t role;       // as_mapping_role: which row has the part that is not malloc's
    uint64_t rss, swap;
    uint64_t malloc_rss; // the part of rss that is in malloc's rows
    uint64_t hugetlb;
};
enum as_mapping_role { AS_ROLE_OTHER = 0, AS_ROLE_STACK = 1, AS_ROLE_UNKNOWN = 2 };

// Section "ruby" (1.1): each page of a Ruby's own heap, by address.
struct as_ruby_page_record {
    uint64_t address;
    uint64_t resident;    // resident bytes of the page; AS_UNKNOWN if residency is unknown
    uint32_t size;        // bytes
    uint32_t slot_size;   // bytes; 0: not divided into slots
    uint32_t total_slots; // number of slots
    uint32_t free_slots;  // number of slots without an object
    uint32_t heap;        // in "heaps", if the page is a chunk of malloc; UINT32_MAX: the page has its own mapping
    uint32_t first_slot;  // offset of the first slot in the page (1.4)
};

// Section "runtimes" (1.3): each runtime that keeps a heap of its own, Ruby excepted (sections "meta" and "ruby").
struct as_runtime_record {
    uint32_t kind;     // as_runtime_kind
    uint32_t state;    // as_runtime_state
    uint32_t row;      // index of the ledger's row that has its resident bytes; as_runtime_row says it of all
    uint32_t releases; // in "strings": which releases have the structures found, "3.10 to 3.14"
    uint32_t evidence; // in "strings": what shows that they are what they seem
    uint32_t objects;  // as_objects_state (1.4)
    uint64_t region_size,
        pool_size;      // bytes: of each region; of the part of a region that one size class takes; AS_UNKNOWN
    uint64_t used;      // bytes in use by the runtime's own account, garbage included; AS_UNKNOWN (1.4, 0 before)
    uint64_t committed; // bytes that it has made usable, resident or not; likewise
    uint64_t other_blocks, other_bytes; // blocks in use that are neither an object nor owned by one (1.4)
};
// A process may have several records of one runtime: one for each part that is in another row.
enum as_runtime_kind {
    AS_RUNTIME_CPYTHON = 1,
    AS_RUNTIME_JVM_HEAP = 2, // this and all that follow: from 1.4 on
    AS_RUNTIME_JVM_CODE = 3,
    AS_RUNTIME_JVM_METASPACE = 4,
    AS_RUNTIME_JEMALLOC = 5,
    AS_RUNTIME_TCMALLOC = 6,
    AS_RUNTIME_MIMALLOC = 7,
    AS_RUNTIME_MUSL = 8,
    AS_RUNTIME_PARTITIONALLOC = 9,
    AS_RUNTIME_ZEND = 10, // PHP's memory manager
    AS_RUNTIME_V8 = 11,
    AS_RUNTIME_GO = 12,
    AS_RUNTIME_ASAN = 13,
    AS_RUNTIME_VALGRIND = 14,
    AS_RUNTIME_UNKNOWN_MALLOC = 15, // malloc is answered by what is not recognised
    AS_RUNTIME_RUBY = 16,           // only for its objects: its pages are in section "ruby"
    AS_RUNTIME_INNODB_POOL = 17,    // MariaDB's buffer pool, and the buffers of its log: from 1.5 on
    AS_RUNTIME_INNODB_LOG = 18,
    AS_RUNTIME_V8_CODE = 19,  // the range for compiled code
    AS_RUNTIME_V8_CPPGC = 20, // objects of C++ that V8 collects (cppgc, Oilpan)
    AS_RUNTIME_RECORDER = 21, // arenascope's own: its tables, and the buffers of a full record (1.11)
};
// The row that has a runtime's resident bytes. A reader before 1.11 refuses a row's index that is beyond its own ledger: the
// recorder's record has that of other_anon, where the bytes would be otherwise.
static inline uint32_t as_runtime_row(const struct as_runtime_record *r)
{
    return r->kind == AS_RUNTIME_RECORDER ? (uint32_t)AS_ROW_recorder : r->row;
}
// Is there such a runtime, and are its regions in section "regions"?
enum as_runtime_state { AS_REGIONS_FOUND = 1, AS_REGIONS_UNPROVEN = 2 };
// Are its objects in section "types"? ESTIMATED: they changed meanwhile. UNKNOWN: they were asked for, and not found.
enum as_objects_state {
    AS_OBJECTS_NOT_ASKED = 0,
    AS_OBJECTS_COUNTED = 1,
    AS_OBJECTS_ESTIMATED = 2,
    AS_OBJECTS_UNKNOWN = 3
};

// Section "regions" (1.3): what a runtime took from the kernel or from malloc in one piece (an arena of CPython's), by address.
// in_use + free + empty is less than size: the rest is headers, and what the division into blocks leaves over. All four counts
// are AS_UNKNOWN where nothing is known of its blocks (1.4).
struct as_region_record {
    uint64_t address, size;
    uint64_t resident;       // bytes of it on resident pages; AS_UNKNOWN where residency is not known
    uint64_t in_use;         // bytes in blocks in use
    uint64_t free;           // bytes in free blocks of pools that have a block in use
    uint64_t empty;          // bytes of pools without a block in use
    uint64_t empty_resident; // of them on resident pages; AS_UNKNOWN
    uint32_t runtime;        // in "runtimes"
    uint32_t heap;           // in "heaps", when it is a chunk of malloc's; UINT32_MAX: a mapping of its own
};

// Section "size_classes" (1.3): the blocks of one size that a runtime has, by runtime, then size.
struct as_size_class_record {
    uint32_t runtime;      // in "runtimes"
    uint32_t size;         // bytes of a block
    uint64_t pools;        // that have a block in use
    uint64_t in_use, free; // blocks of these pools
};

// Section "types" (1.4): a runtime's objects of one type. Bytes are those of whole blocks and chunks, headers included. An object
// owns its items, table or values: memory that nothing else points to.
struct as_type_record {
    uint32_t runtime;            // in "runtimes"
    uint32_t name;               // in "strings"
    uint64_t address;            // of the type itself
    uint64_t count;              // objects
    uint64_t tracked;            // of them, those that the runtime's garbage collector has in its lists
    uint64_t bytes;              // of objects in the runtime's regions
    uint64_t malloc_bytes;       // of objects that are chunks of malloc
    uint64_t owned_bytes;        // what they own in the regions
    uint64_t owned_malloc_bytes; // what they own in chunks of malloc
};

// Section "classes" (1.5): the objects of one class that have one of the types of section "types"; the largest first. Only of a Ruby.
struct as_class_record {
    uint32_t runtime; // in "runtimes"
    uint32_t name;    // in "strings"
    uint32_t type;    // in "types"
    uint32_t kind;    // as_class_kind
    uint64_t address; // of the class; 0: there is none
    uint64_t count;
    uint64_t bytes;              // of their slots
    uint64_t owned_malloc_bytes; // of the chunks of malloc that they point to
    uint64_t not_marked;         // objects that no GC has marked yet; AS_UNKNOWN
    uint64_t not_marked_bytes;   // of their slots and chunks; AS_UNKNOWN where not_marked is
};
// ANONYMOUS: the class has no name. SINGLETON: the objects are singleton classes. INTERNAL: no program sees them.
enum as_class_kind { AS_CLASS_NAMED = 1, AS_CLASS_ANONYMOUS = 2, AS_CLASS_SINGLETON = 3, AS_CLASS_INTERNAL = 4 };

// Section "runtime_pages" (1.5): a page of the kernel's that belongs to CPython's arenas, or to Ruby's own heap where that is not in
// chunks of malloc. What is neither in use nor free is headers, and what the division into blocks leaves over.
struct as_runtime_page_record {
    uint64_t address;
    uint16_t in_use, free; // in units of AS_RUNTIME_UNIT bytes: of blocks (CPython), of slots (Ruby)
    uint8_t block_size; // likewise: of the blocks or slots on the page; 0: it has none, or several sizes, or large ones
    uint8_t flags;      // AS_RUNTIME_PAGE_*
    uint8_t kind;       // as_runtime_kind
    uint8_t residency;  // AS_RES_* bits
};
enum {
    AS_RUNTIME_UNIT = 8,
    // Which blocks of a pool are in use was not looked at: in_use and free are a part of the pool's, by the page's part of it.
    AS_RUNTIME_PAGE_MEAN = 1,
};

// Section "spaces" (1.7): a part of a runtime's heap that the runtime counts by itself: a space of a JVM's collector.
struct as_space_record {
    uint32_t runtime; // index in "runtimes"
    uint32_t name;    // in "strings"
    uint64_t used, committed;
};

// Section "page_fill" (1.5): how full the pages are that have stranded bytes: one record for each class that has a page.
struct as_fill_record {
    uint32_t chunks;           // in use on a page, at least: 0, 1, 2, 3, 5 or 9, and less than the next of these
    uint32_t eighths;          // of a page that are in use, at least: 0 to 7
    uint64_t pages;            // of this class
    uint64_t in_use, stranded; // bytes on them
};
enum { AS_FILL_CHUNKS = 6, AS_FILL_EIGHTHS = 8 };

// Section "sharers" (1.5): the chunks in use that stand with others on a page with stranded bytes, by size, ascending.
struct as_sharer_record {
    uint64_t chunk_size;
    uint64_t places;   // how often a chunk of this size stands on such a page; on two pages it counts twice
    uint64_t stranded; // bytes of these pages: each chunk in use on a page has an equal part
};

// Sections "graph" and "graph_*" (1.6): who holds the chunks in use, where it was asked for. All bytes are those of chunks, headers
// included. An index of a type is in "graph_types", that of an owner in "graph_owners". UINT32_MAX: none.

// Section "graph": one record; none where it was not asked for.
struct as_graph_record {
    uint64_t chunks, bytes;         // in use, objects of runtimes included
    uint64_t objects, object_bytes; // of these, what is no chunk of malloc's
    uint64_t pointers, roots;       // how many
    uint64_t unread, unsearched;    // bytes of heaps that could not be read; of shared memory that were not searched
    uint64_t reached, unreached;    // bytes that some owner leads to, and those that none does
    struct as_tally direct, indirect, suspects; // lost chunks (docs/graph.md)
    uint32_t flags;                             // AS_GRAPH_*
    uint32_t asked; // 1.10: how many of the owners that lead to what several have were asked to how much of it
};
enum { AS_GRAPH_EXACT = 1 }; // all was read, and of one moment

// What keeps pages that have stranded bytes. `pages`: all chunks in use on them are of this one; `stranded`: bytes on these.
// `part`: its part of the stranded bytes of all other such pages: each chunk in use on a page has an equal part.
struct as_kept {
    uint64_t pages, stranded, part;
};

// Section "graph_types": the chunks of one type, most bytes first.
struct as_graph_type_record {
    uint32_t name;     // in "strings"; 0: not known
    uint32_t evidence; // likewise: what the name rests on, "vtable" or "pattern"
    uint32_t flags;    // AS_GRAPH_OTHERS
    uint32_t reserved;
    uint64_t count, bytes;
    uint64_t retained; // bytes: with what only single chunks of the type hold
    struct as_kept kept;
};
enum { AS_GRAPH_OTHERS = 1 }; // the record is the sum of all for which there is no room

// Section "graph_owners": who has roots.
struct as_graph_owner_record {
    uint32_t kind;     // in "strings": "variable", "stack", ...; "several", "lost", "others"
    uint32_t name;     // likewise: the variable's
    uint32_t module;   // likewise: of the file in whose data the variable lies
    uint32_t mapping;  // likewise: the path of the mapping
    uint32_t thread;   // tid; 0: none
    uint32_t type;     // likewise: of the variable, by debug information; 0: not known
    uint64_t address;  // AS_UNKNOWN: none
    uint64_t offset;   // of the address in the module; AS_UNKNOWN
    uint64_t retained; // bytes
    struct as_kept kept;
};

// Section "graph_branches": the dominator tree by types, each branch behind the one that it hangs on; siblings by what they retain.
struct as_graph_branch_record {
    uint32_t depth; // 0: an owner
    uint32_t owner; // at depth 0
    uint32_t type;  // below
    uint32_t
        flags; // AS_GRAPH_OTHERS: the sum of the branches at this place that are left out, and of all that hangs on them
    uint64_t count, bytes, retained;
};
enum { AS_GRAPH_DEPTH = 16 }; // all depths are less

// Section "graph_leaks": the lost chunks of one type and size, most bytes first.
struct as_graph_leak_record {
    uint32_t type;
    uint32_t flags; // AS_GRAPH_OTHERS
    uint64_t size;  // of each; 0: of many sizes
    struct as_tally direct, indirect, suspects;
    uint64_t example; // address that malloc returned for one of them; 0 of AS_GRAPH_OTHERS
};

// Section "graph_holders": the chunks of one type that one owner holds; the first is AS_GRAPH_OTHERS.
struct as_graph_holder_record {
    uint32_t type, owner;
    uint32_t leak; // in "graph_leaks", of lost chunks and suspects
    uint32_t flags;
    uint64_t count, bytes;
    struct as_kept kept;
};

// Section "graph_places": what lies on a page, by page; of one page what has most bytes on it comes first.
struct as_graph_place_record {
    uint32_t page;   // in "pages"
    uint32_t holder; // in "graph_holders"
};

// Section "graph_leading" (1.7): an owner that leads to what several owners have; those that lead to most, most bytes first.
struct as_graph_leading_record {
    uint32_t owner;
    uint32_t owners; // of how many that lead to any of it; in each record the same
    uint64_t bytes;  // that are free only if this owner goes, too
};

// Section "profile" (1.8): one record where a recorder's tables were found in the process. Chunks: those in use, scaled by the rate of
// pages unless they are large.
struct as_profile_record {
    uint32_t flags;                    // AS_PROFILE_*
    uint32_t page_rate;                // one page in so many is watched
    uint64_t large;                    // bytes; chunks of this size are all recorded
    uint64_t mean;                     // bytes between two samples of allocations; 0: none are taken
    uint64_t started_ns;               // since the epoch
    uint64_t memory;                   // bytes that the tables have used
    uint64_t known_count, known_bytes; // chunks with a stack
    uint64_t unseen_count,
        unseen_bytes;                // allocated before the profile began, or by code that the recorder does not see
    uint64_t lost_count, lost_bytes; // seen, but without a stack
    uint64_t lost;                   // allocations without a stack, since the profile began
    uint64_t misses;                 // allocations whose stack had to be unwound
    uint64_t checked;                // allocations whose stack was recognised, and unwound to compare
    uint64_t wrong;                  // of these: another stack
    uint64_t cut;                    // stacks without their outermost frames
    uint64_t samples;
    uint64_t unsampled; // allocations in threads for which there was no room
    // 1.12: interpreters that are there, and whose frames are not known: major release << 8 | minor, or AS_PROFILE_SOME_RELEASE; 0: none.
    uint32_t unknown_python, unknown_ruby;
    uint64_t lost_alloc_count, lost_alloc_bytes; // 1.14: what was allocated without a stack, as a site's alloc_count
    uint32_t hooks;                              // 1.15: as_hooks
    uint32_t reserved;
    uint64_t reserved_words;
};
// How calls of malloc and its kin came to the recorder: by the slots that keep their addresses, or by their first instructions.
enum as_hooks { AS_HOOKS_UNKNOWN, AS_HOOKS_IN_SLOTS, AS_HOOKS_AT_ENTRIES };
enum {
    AS_PROFILE_ON = 1,    // it went on during the look
    AS_PROFILE_EXACT = 2, // every page is watched
    AS_PROFILE_SOME_RELEASE = 0xffff,
};

// Section "profile_modules" (1.8): an object in which frames are.
struct as_profile_module_record {
    uint32_t path, build_id; // in "strings"; the build-id in hexadecimal
    uint64_t start, end;     // of its code
    uint64_t bias;           // what the loader added to the file's own addresses
};

// Section "profile_frames" (1.8): a return address.
struct as_profile_frame_record {
    uint32_t module; // in "profile_modules"; UINT32_MAX: the offset is an address, or see `line`
    uint32_t line;   // 1.9: index in "profile_lines" + 1: no return address, but a line of interpreted code; 0: none
    uint64_t offset; // in the file's own addresses; of a line: 0
};

// Section "profile_lines" (1.9): a line of a function that an interpreter runs.
struct as_profile_line_record {
    uint32_t function, file; // in "strings": what the interpreter calls them; "": it is not known
    uint32_t line;           // 0: it is not known
    uint32_t language;       // in "strings": "python" or "ruby"
};

// Section "profile_stacks" (1.8): a frame below its caller. A stack is a record, that of its caller, and so on.
struct as_profile_stack_record {
    uint32_t frame;  // in "profile_frames"
    uint32_t caller; // in "profile_stacks", before this one; UINT32_MAX: the outermost
};

// Section "profile_sites" (1.8): who allocates; most bytes in use first.
struct as_profile_site_record {
    uint32_t stack;                    // in "profile_stacks": its innermost frame, the caller of malloc
    uint32_t flags;                    // AS_PROFILE_CUT
    uint64_t seen_count, seen_bytes;   // chunks in use that were recorded
    uint64_t count, bytes;             // what they stand for
    uint64_t samples;                  // allocations sampled by bytes
    uint64_t alloc_count, alloc_bytes; // what these stand for
    uint64_t reserved[2];
};
enum { AS_PROFILE_CUT = 1 }; // outermost frames are missing

// Section "profile_kept" (1.8): what the site with the same index keeps. Estimates unless every page is watched; the last three are
// AS_UNKNOWN then.
struct as_profile_kept_record {
    uint64_t pinned;         // pages that one chunk of the site keeps alone: pins
    uint64_t stranded;       // bytes: each chunk in use on a page has an equal part
    uint64_t pages;          // with stranded bytes on which all chunks in use are of this site
    uint64_t pages_stranded; // bytes on these
    uint64_t returned;       // bytes that malloc_trim(0) would return besides if all chunks of the site were freed
    uint64_t reserved[3];
};

// Section "profile_places" (1.8): whose chunks lie on a page, by page; of one page what has most bytes on it comes first.
struct as_profile_place_record {
    uint32_t page; // in "pages"
    uint32_t site; // in "profile_sites"
};

// Section "profile_threads" (1.13): a thread that was seen to allocate.
struct as_profile_thread_record {
    uint32_t tid;   // in its own pid namespace; 0: not known
    uint32_t flags; // AS_PROFILE_THREAD_HERE
};
enum { AS_PROFILE_MOST_THREADS = 1024 }; // fewer are named
enum { AS_PROFILE_THREAD_HERE = 1 };     // if section "threads" has one with this tid, it is the same thread

// Section "profile_shares" (1.13): what one thread has of a site, by site; all shares of a site add up to it. None: they are not known.
struct as_profile_share_record {
    uint32_t site;                     // in "profile_sites"
    uint32_t thread;                   // in "profile_threads"; UINT32_MAX: one that is not known, or several
    uint64_t count, bytes;             // what its chunks in use stand for
    uint64_t alloc_count, alloc_bytes; // what its sampled allocations stand for
};

// Section "warnings": in the order of their discovery.
struct as_warning_record {
    uint32_t text;    // in "strings"
    uint32_t code;    // as_warning
    uint32_t arena;   // in "arenas"; UINT32_MAX
    uint32_t heap;    // in "heaps"; UINT32_MAX
    uint64_t address; // AS_UNKNOWN if it concerns no address
};
enum as_warning {
    AS_WARN_NOTE = 0,      // a note: concerns no number
    AS_WARN_CORRUPT = 1,   // the walk could not continue here
    AS_WARN_RESIDENCY = 2, // residency is unknown for some or all pages
    AS_WARN_TCACHE = 3,    // a thread's tcache was not found
    AS_WARN_MMAPPED = 4,   // mmapped chunks found differ from mp_'s count
    AS_WARN_SUM = 5,       // the rows do not sum to Rss
    AS_WARN_LOCKED = 6,    // an arena was locked during the look
    AS_WARN_ALLOCATOR = 7, // another library answers malloc()
    AS_WARN_LAYOUT = 8,    // no glibc layout could be proven
    AS_WARN_ESTIMATED = 9, // a number is right only under an assumption that the text names
};

// Section "strings": record size 1; the bytes that the target had, NUL-terminated, usually UTF-8; offset 0 is "".

_Static_assert(sizeof(struct as_page_record) == 16, "dump format");
