// SPDX-License-Identifier: MIT
#include "base/clock.h"
#include "model/records.h"
#include "recorder/hot_path.h"
#include "recorder/stack_memo.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MODULES = 4096,
    ROWS = 1 << 14,
    ALIGN = 4096,
    TEXTS = 32,              // one byte in so many is for names
    STACKS = 8,              // and one for stacks
    CONTEXTS = 16,           // and one for contexts, and one for what is sampled of them
    MOST_CONTEXTS = 1 << 23, // half of what an id can say
    FRAMES = 64,             // one byte in so many is for frames, and half as many for their links
    FRAME_BITS = 8,
    BRANCH_WORDS = 3,     // words of a branch in the mean, about, as a power of two
    BRANCH_BITS = 8,      // at least, of the heads of the smallest level: 1 KiB
    BRANCH_FILTER = 1024, // one byte in so many is for the filter of branches, where time counts for more than memory
    CONTEXT_BITS = 10,
    FUNCTION_BITS = 8,
    // Where the contexts of few allocations are searched for: entries of a chain, as a power of two; by how much caches are smaller.
    SPARSE_LOAD = 3,
    SPARSE_SHIFT = 3,
    SPARSE_LAYOUTS = 1 << 11,
    SPARSE_ROWS = 1 << 8,       // at first
    SPARSE_SIGNATURES = 1 << 9, // at first; else:
    FIRST_SIGNATURES = 1 << 15,
    LARGE_SLOTS = 64, // one byte in so many
    SIGNATURES = 16,  // one byte in so many, at most
    LASTS = 16,       // the same
    LAYOUTS = 16,     // the same
    REFUSED = 128,    // the same, of what had no room: bits of as much contiguous memory as twice these tables
};
#define LARGE (UINT64_C(16) << 10)
#define TABLES_NAME "arenascope profile"

struct as_recorder as_recorder;
struct as_recorder_taken as_recorder_taken;

static uint64_t reserve(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static struct as_profile_table table(uint64_t *end, uint64_t size, uint64_t entry)
{
    return (struct as_profile_table){.offset = reserve(end, size * entry), .size = size};
}

static unsigned bits_of(uint64_t count)
{
    return 63 - (unsigned)__builtin_clzll(count);
}

// Where time counts for more than memory, there are two levels, and in the second one a head for every two entries or so. Else the smallest
// has only so many as it has to, and chains are longer. `words`: an entry of the chains is so many of the table's, as a power of two.
static struct as_recorder_chains chains(char *base, uint64_t *end, unsigned bits, uint64_t entries, unsigned words)
{
    const unsigned load = words + (as_recorder.every ? 0 : SPARSE_LOAD), most = bits_of(entries / 2) - load;
    const unsigned steps = as_recorder.every ? 1 : (most - bits + AS_RECORDER_LEVEL_BITS - 1) / AS_RECORDER_LEVEL_BITS;
    struct as_recorder_chains c = {
        .bits = as_recorder.every ? most - AS_RECORDER_LEVEL_BITS : bits, .levels = steps + 1, .load = load};
    c.heads = (void *)(base + reserve(end, as_recorder_heads_below(c.bits, c.levels) * sizeof *c.heads));
    return c;
}

// Returns the mask of a cache: of `most` entries where every allocation may inspect it, of fewer where only some do.
static uint64_t mask_of(uint64_t most)
{
    return (as_recorder.every ? most : most >> SPARSE_SHIFT) - 1;
}

static void lay_out(char *base, uint64_t size, const struct as_recorder_rates *rates, bool traced)
{
    struct as_recorder *r = &as_recorder;
    struct as_profile_head *head = (void *)base;
    r->page_shift = (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    r->every = traced || rates->page_shift == 0;
    atomic_store(&r->signs_all, false);
    r->watched = as_profile_watched(rates->page_shift);
    r->all_pages = rates->page_shift == 0;
    r->page_run = as_profile_run(rates->page_shift);
    r->mean = rates->mean;
    const uint64_t page = UINT64_C(1) << r->page_shift; // no two chunks as large as that begin on the same one
    r->large = LARGE > page ? LARGE : page;
    r->block_shift = r->page_shift - AS_PROFILE_SLOT_SHIFT + 2; // four bytes a slot
    uint32_t block = 1U << r->block_shift;
    uint64_t end = 0;
    uint64_t blocks = size / 2 / block;
    uint64_t stacks = size / STACKS / sizeof *r->stacks, contexts = size / CONTEXTS / sizeof *r->contexts;
    contexts = contexts < MOST_CONTEXTS ? contexts : MOST_CONTEXTS;
    uint64_t signatures = UINT64_C(1) << bits_of(size / SIGNATURES / sizeof *r->signatures);
    signatures = signatures < AS_RECORDER_SIGNATURES ? signatures : AS_RECORDER_SIGNATURES;
    uint64_t places = UINT64_C(1) << (64 - __builtin_clzll(blocks)); // at least as many
    reserve(&end, sizeof *head);
    r->head = head;
    atomic_store(&as_recorder_taken.walks, 0);
    r->threads = (void *)(base + reserve(&end, AS_RECORDER_THREADS * sizeof *r->threads));
    r->scratch = (void *)(base + reserve(&end, AS_RECORDER_THREADS * sizeof *r->scratch));
    uint64_t layouts = size / LAYOUTS / sizeof *r->layouts;
    layouts = layouts < AS_RECORDER_LAYOUTS ? layouts : AS_RECORDER_LAYOUTS;
    r->layouts = (void *)(base + reserve(&end, layouts * sizeof *r->layouts));
    r->layouts_taken = 0;
    r->most_layouts = r->every ? layouts : SPARSE_LAYOUTS;
    r->layout_lines = (void *)(base + reserve(&end, AS_RECORDER_LAYOUT_LINES * sizeof *r->layout_lines));
    r->layout_mask = AS_RECORDER_FIRST_LINES - 1;
    r->signatures = (void *)(base + reserve(&end, signatures * sizeof *r->signatures));
    r->most_signatures = signatures;
    r->signature_mask = (r->every ? FIRST_SIGNATURES : SPARSE_SIGNATURES) - 1;
    r->branch_chains = chains(base, &end, BRANCH_BITS, stacks, BRANCH_WORDS);
    const uint64_t filter = r->every ? UINT64_C(8) << bits_of(size / BRANCH_FILTER) : 0;
    r->branch_filter = filter != 0 ? (void *)(base + reserve(&end, filter / 8)) : NULL;
    r->branch_filter_mask = filter - 1;
    const uint64_t frames = size / FRAMES / sizeof *r->frames;
    r->frame_chains = chains(base, &end, FRAME_BITS, frames, 0);
    r->frame_links = (void *)(base + reserve(&end, frames * sizeof *r->frame_links));
    r->context_chains = chains(base, &end, CONTEXT_BITS, contexts, 0);
    r->rows = (void *)(base + reserve(&end, AS_UNWIND_CACHE_BYTES(ROWS)));
    r->walks = (void *)(base + reserve(&end, AS_RECORDER_WALKS * sizeof *r->walks));
    r->readable = (void *)(base + reserve(&end, AS_INNER_PAGES * sizeof *r->readable));
    r->names = (void *)(base + reserve(&end, AS_INNER_NAMES * sizeof *r->names));
    r->iseqs = (void *)(base + reserve(&end, AS_CRUBY_KNOWN * sizeof *r->iseqs));
    r->lasts_taken = 0;
    r->threaded = false;
    uint64_t lasts = size / LASTS / sizeof *r->lasts;
    r->last_count = lasts < AS_RECORDER_LASTS ? (uint32_t)lasts : AS_RECORDER_LASTS;
    r->lasts = (void *)(base + reserve(&end, r->last_count * sizeof *r->lasts));
    r->function_chains = chains(base, &end, FUNCTION_BITS, AS_RECORDER_FUNCTIONS, 0);
    r->readable_mask = mask_of(AS_INNER_PAGES);
    r->names_mask = mask_of(AS_INNER_NAMES);
    r->iseqs_mask = mask_of(AS_CRUBY_KNOWN);
    *head = (struct as_profile_head){
        .magic = AS_PROFILE_MAGIC,
        .version = AS_PROFILE_VERSION,
        .head_size = sizeof *head,
        .self = (uintptr_t)head,
        .size = size,
        .pid = (uint64_t)getpid(),
        .page_shift = r->page_shift,
        .rate_shift = rates->page_shift,
        .block_size = block,
        .large = r->large,
        .mean = r->mean,
        .started_ns = as_clock_ns(CLOCK_REALTIME),
    };
    head->modules = table(&end, MODULES, sizeof *r->modules);
    head->functions = table(&end, AS_RECORDER_FUNCTIONS, sizeof *r->functions);
    head->functions.used = 1;
    head->texts = table(&end, size / TEXTS, 1);
    head->texts.used = 1;
    head->threads = table(&end, AS_PROFILE_MOST_THREADS, sizeof *r->threads_named);
    head->threads.used = 1;
    head->contexts = table(&end, contexts, sizeof *r->contexts);
    head->contexts.used = AS_PROFILE_FIRST;
    const uint64_t sampled = size / CONTEXTS / sizeof *r->sampled;
    head->sampled = table(&end, sampled < contexts ? sampled : contexts, sizeof *r->sampled);
    head->sampled.used = AS_PROFILE_FIRST;
    head->frames = table(&end, frames, sizeof *r->frames);
    head->frames.used = 1;
    head->stacks = table(&end, stacks, sizeof *r->stacks);
    head->stacks.used = 1;
    head->large_slots = table(&end, size / LARGE_SLOTS / sizeof *r->large_slots, sizeof *r->large_slots);
    head->refused = table(&end, UINT64_C(1) << bits_of(size / REFUSED / sizeof(uint64_t)), sizeof(uint64_t));
    head->pages = table(&end, places, sizeof *r->pages);
    head->blocks = table(&end, (size - end - ALIGN) / block < blocks ? (size - end - ALIGN) / block : blocks, block);
    r->rows->most = mask_of(ROWS);
    r->rows->mask = r->every ? r->rows->most : SPARSE_ROWS - 1;
    r->page_mask = places - 1;
    r->modules = (void *)(base + head->modules.offset);
    r->functions = (void *)(base + head->functions.offset);
    r->texts = base + head->texts.offset;
    r->threads_named = (void *)(base + head->threads.offset);
    r->contexts = (void *)(base + head->contexts.offset);
    r->contexts[AS_PROFILE_LOST].sampled = AS_PROFILE_LOST;
    r->sampled = (void *)(base + head->sampled.offset);
    r->frames = (void *)(base + head->frames.offset);
    r->frame_chains.next = (char *)r->frame_links;
    r->frame_chains.entry = sizeof *r->frame_links;
    r->stacks = (void *)(base + head->stacks.offset);
    r->context_chains.next = (char *)&r->contexts->next;
    r->context_chains.entry = sizeof *r->contexts;
    r->function_chains.next = (char *)&r->functions->next;
    r->function_chains.entry = sizeof *r->functions;
    // A branch's first stack is in the chain, and the link is before the word before it.
    r->branch_chains.next =
        (char *)((uintptr_t)r->stacks - (AS_PROFILE_BRANCH_BIT + (uint64_t)AS_PROFILE_BRANCH_HEAD) * sizeof *r->stacks);
    r->branch_chains.entry = sizeof *r->stacks;
    r->pages = (void *)(base + head->pages.offset);
    r->blocks = (uint8_t *)base + head->blocks.offset;
    r->large_slots = (void *)(base + head->large_slots.offset);
}

// By number: each of libc's names would add to an injected library.
static void unlock(char *from, uint64_t bytes)
{
    syscall(SYS_munlock, from, bytes);
}

char *as_recorder_map_alone(uint64_t bytes, const char *name)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    // Where the program locks what is to come (mlockall), all of it would be made now, and the kernel would not take it back.
    unlock(room, bytes + 2 * page);
    if (mprotect(room + page, bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(room, bytes + 2 * page);
        return NULL;
    }
    madvise(room + page, bytes, MADV_NOHUGEPAGE); // what is in it is sparse
#ifdef PR_SET_VMA
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, room + page, bytes, name);
#endif
    return room + page;
}

static char *mapped;
static uint64_t mapped_size;

// Empty tables in the place of those that the kernel does not take back. Others see one or the other: the addresses are never unmapped.
static bool replace_mapped(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char *fresh = as_recorder_map_alone(mapped_size, TABLES_NAME);
    if (!fresh)
        return false;
    bool moved = syscall(SYS_mremap, fresh, mapped_size, mapped_size, MREMAP_MAYMOVE | MREMAP_FIXED, mapped) != -1;
    // What was between these two may be another's by now.
    munmap(fresh - page, page);
    munmap(fresh + mapped_size, page);
    if (!moved)
        munmap(fresh, mapped_size);
    return moved;
}

// The program may have locked them meanwhile, too (mlockall): the kernel takes back what is not locked alone. False: what was written is
// still there, and begins as no tables any more.
static bool empty_mapped(void)
{
    unlock(mapped, mapped_size);
    if (madvise(mapped, mapped_size, MADV_DONTNEED) == 0 || replace_mapped())
        return true;
    ((struct as_profile_head *)(void *)mapped)->magic = 0;
    return false;
}

// Smaller tables lie where larger ones were. What was too small is never unmapped: see as_recorder_unmap.
bool as_recorder_map(const struct as_recorder_rates *rates, bool traced)
{
    if (mapped && !empty_mapped())
        return false;
    if (!mapped || mapped_size < rates->memory) {
        char *fresh = as_recorder_map_alone(rates->memory, TABLES_NAME);
        if (!fresh)
            return false;
        mapped = fresh;
        mapped_size = rates->memory;
    }
    lay_out(mapped, rates->memory, rates, traced);
    return true;
}

void as_recorder_unmap(void)
{
    if (mapped)
        empty_mapped();
}

static _Atomic uint32_t *slot_in(uint64_t entry, uintptr_t chunk, bool watched)
{
    return watched ? as_recorder_slots_in(entry) + as_recorder_slot_on_page(chunk)
                   : &as_recorder.large_slots[(entry & ((UINT64_C(1) << AS_PROFILE_BLOCK_BITS) - 1)) - 1];
}

// What has no room is not taken for what nobody has seen.
static _Atomic uint32_t *lose_chunk(uintptr_t chunk)
{
    const struct as_profile_table *table = &as_recorder.head->refused;
    _Atomic uint64_t *words = (void *)((char *)as_recorder.head + table->offset);
    uint64_t bit = as_profile_refused_bit(chunk, table->size), mask = UINT64_C(1) << bit % 64;
    if (!(atomic_load_explicit(&words[bit / 64], memory_order_relaxed) & mask))
        atomic_fetch_or_explicit(&words[bit / 64], mask, memory_order_relaxed);
    return NULL;
}

_Atomic uint32_t *as_recorder_slot(uintptr_t chunk, bool make)
{
    struct as_recorder *r = &as_recorder;
    uint64_t page = chunk >> r->page_shift;
    uint64_t place = as_profile_place(page, r->page_run, r->page_mask);
    const bool watched = as_recorder_is_watched(chunk);
    struct as_profile_table *table = watched ? &r->head->blocks : &r->head->large_slots;
    uint64_t taken = 0;
    const uint32_t probes = page >> AS_PROFILE_PAGE_BITS ? 0 : as_profile_probes(r->head->rate_shift);
    for (uint32_t i = 0; i < probes; i++, place = (place + 1) & r->page_mask) {
        uint64_t entry = atomic_load_explicit(&r->pages[place], memory_order_acquire);
        if (entry == 0) {
            if (!make)
                return NULL;
            if (taken == 0 && (taken = as_recorder_take_places(table, 1) + 1) == 0)
                return lose_chunk(chunk);
            if (atomic_compare_exchange_strong(&r->pages[place], &entry, page << AS_PROFILE_BLOCK_BITS | taken))
                return slot_in(taken, chunk, watched);
        }
        if (entry >> AS_PROFILE_BLOCK_BITS == page)
            return slot_in(entry, chunk, watched);
    }
    return make ? lose_chunk(chunk) : NULL;
}
