// SPDX-License-Identifier: MIT
#include "malloc/find.h"
#include "malloc/tcache.h"

#include <string.h>
#include <unistd.h>

enum {
    NEAR = 4096,     // libc's TLS is almost always this close to the thread pointer
    FAR = 64 * 1024, // unless the program or a library before libc has large thread-local data of its own
    WORD = 8,
    SAMPLE = 256, // threads that find the distances; the rest are read there only
};

// TLS blocks lie below the thread pointer on x86-64 (TLS variant II) and above it on aarch64 (variant I).
static bool below(const struct as_target *t)
{
    return t->arch == AS_ARCH_X86_64;
}

struct block {
    uint8_t *bytes;
    size_t first, last; // the readable part, as distances from the block's beginning
};

typedef AS_VEC(uint8_t) byte_vec;
typedef AS_VEC(struct block) block_vec;

// Reads `reach` bytes of static TLS of threads whose thread pointer is known, as many as are needed.
static bool read_blocks(struct as_target *t, size_t reach, byte_vec *memory, block_vec *blocks, struct as_error *err)
{
    size_t step = t->threads.count / SAMPLE + 1;
    size_t most = t->threads.count / step + 1;
    if (!as_vec_reserve(memory, most * reach, err) || !as_vec_reserve(blocks, most, err))
        return false;
    for (size_t i = 0; i < t->threads.count; i += step) {
        uint64_t tp = t->threads.items[i].tp;
        if (tp == AS_UNKNOWN || tp < reach || tp % WORD != 0)
            continue;
        struct block b = {.bytes = memory->items + memory->count, .last = reach};
        // Only within the mapping that holds the block: next to it may lie a file, whose pages would become resident.
        const struct as_mapping *m = as_target_mapping_at(t, below(t) ? tp - 1 : tp);
        if (!m || !(m->prot & AS_PROT_WRITE))
            continue;
        if (below(t)) {
            size_t length = tp - m->start < reach ? (size_t)(tp - m->start) : reach;
            size_t got = as_target_read_resident(t, tp - length, b.bytes + reach - length, length);
            b.first = got == length ? reach - length : reach;
        } else {
            size_t length = m->end - tp < reach ? (size_t)(m->end - tp) : reach;
            b.last = as_target_read_resident(t, tp, b.bytes, length);
        }
        memory->count += reach;
        blocks->items[blocks->count++] = b;
    }
    return true;
}

static uint64_t word_at(const struct block *b, size_t distance)
{
    uint64_t value;
    memcpy(&value, b->bytes + distance, sizeof value);
    return value;
}

// NOTHING: the thread has none, which fits as well. IDLE: nor has it, and its word says so.
enum verdict { NOTHING, IDLE, FITS, WRONG };

// Is it a tcache that a thread has in the first libc? What a map of its own holds does not say of which libc it is.
static bool is_threads_tcache(const struct as_heaps *h, uint64_t word)
{
    for (size_t i = 0; i < h->threads.count; i++)
        if (h->threads.items[i].tcache == word)
            return true;
    for (size_t i = 0; i < h->other_tcaches.count; i++)
        if (h->other_tcaches.items[i].address == word)
            return true;
    return false;
}

// Reads bytes of libc that do not change. Pages of a file that are not in memory would become resident by being read: the file itself has
// them, as no page is a copy then. A clone has no page of a file at first; the file of a core may be another build.
static bool read_constant(const struct as_heaps *h, const struct as_mapping *m, uint64_t at, void *bytes, size_t size)
{
    struct as_target *t = h->target;
    uint8_t residency[AS_TCACHE_BYTES / 4096 + 2];
    bool resident = true, swapped = false;
    uint64_t start = at & ~(uint64_t)(t->page_size - 1);
    uint64_t end = (at + size + t->page_size - 1) & ~(uint64_t)(t->page_size - 1);
    if (!as_target_residency(t, start, end, residency, NULL))
        return false;
    for (size_t i = 0; i < (end - start) / t->page_size; i++) {
        resident &= (residency[i] & (AS_RES_PRESENT | AS_RES_UNKNOWN)) != 0;
        swapped |= (residency[i] & AS_RES_SWAPPED) != 0;
    }
    if (resident)
        return as_target_read(t, at, bytes, size);
    int fd = swapped || t->kind == AS_TARGET_CORE ? -1 : t->ops->open_file(t, m, NULL);
    bool ok = fd >= 0 && pread(fd, bytes, size, (off_t)(m->offset + (at - m->start))) == (ssize_t)size;
    if (fd >= 0)
        close(fd);
    return ok;
}

// From 2.43 on a thread's `tcache` is never null: at first it leads to a constant struct of libc's own, with no room for
// anything. Where the struct cannot be read, the word fits as well as any pointer to a constant of libc.
static enum verdict classify_dummy(const struct as_heaps *h, const struct as_libc *libc, uint64_t word)
{
    const struct as_mapping *m = as_target_mapping_at(h->target, word);
    uint8_t bytes[AS_TCACHE_BYTES];
    size_t size = (size_t)libc->layout.heap.tcache_size;
    if (!m || !as_mapping_of_file(m) || (m->prot & AS_PROT_WRITE) || word % WORD != 0 || size > sizeof bytes ||
        m->end - word < size ||
        strcmp(as_mapping_path(h->target, m), as_strings_at(&h->target->strings, libc->path)) != 0)
        return WRONG;
    if (!read_constant(h, m, word, bytes, size))
        return NOTHING;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return WRONG;
    return IDLE;
}

// A word that may be a thread's `tcache`. NULL before its first malloc, up to 2.42 (where there are fastbins).
static enum verdict classify_tcache(const struct as_heaps *h, uint32_t libc_index, uint64_t word)
{
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    const struct as_heap_layout *layout = &libc->layout.heap;
    if (word == 0)
        return libc->layout.state.fastbin_count > 0 ? NOTHING : WRONG;
    if (!as_tcache_placed(h, libc_index, word))
        return libc->layout.state.fastbin_count == 0 ? classify_dummy(h, libc, word) : WRONG;
    uint8_t bytes[AS_TCACHE_BYTES];
    if (libc_index > 0 && !as_heaps_at(h, word) && is_threads_tcache(h, word))
        return WRONG;
    if (!as_tcache_copy(h->target, layout, word, bytes))
        return WRONG;
    return as_tcache_plausible(h, libc, &h->pars.items[libc_index], bytes) ? FITS : WRONG;
}

static uint32_t arena_at(const struct as_heaps *h, uint32_t libc_index, uint64_t address)
{
    for (size_t i = 0; i < h->arenas.count; i++)
        if (h->arenas.items[i].libc_index == libc_index && h->arenas.items[i].address == address)
            return (uint32_t)i;
    return UINT32_MAX;
}

// A word that may be a thread's `thread_arena`: NULL before its first malloc.
static enum verdict classify_arena(const struct as_heaps *h, uint32_t libc_index, uint64_t word)
{
    if (word == 0)
        return NOTHING;
    return arena_at(h, libc_index, word) != UINT32_MAX ? FITS : WRONG;
}

typedef enum verdict classifier(const struct as_heaps *h, uint32_t libc_index, uint64_t word);

struct tally {
    size_t fits, idle, wrong;
};

// `named`: asks all threads. At most other offsets the words of nearly all threads are wrong, which the first few show.
static struct tally count_verdicts(const struct as_heaps *h, uint32_t libc_index, const block_vec *blocks,
                                   size_t distance, classifier *classify, bool named)
{
    struct tally tally = {0};
    for (size_t i = 0; i < blocks->count && (named || tally.wrong <= 1 + i / 2); i++) {
        const struct block *b = &blocks->items[i];
        if (distance < b->first || distance + WORD > b->last)
            continue;
        enum verdict v = classify(h, libc_index, word_at(b, distance));
        tally.fits += v == FITS;
        tally.idle += v == IDLE;
        tally.wrong += v == WRONG;
    }
    return tally;
}

// The distance at which the most threads' words fit; `reach` when there is none. *doubted: some thread's word is wrong there.
// `offset`: what the symbols say, from the thread pointer, or AS_UNKNOWN. It is taken where the word of at least one thread
// fits.
//
// A word that is wrong does not rule a distance out: a thread whose tcache is damaged would make all the others' unknown, or,
// worse, leave the choice to a stale pointer on one thread's stack, where the others have zeros.
static size_t find_offset(const struct as_heaps *h, uint32_t libc_index, const block_vec *blocks, size_t reach,
                          uint64_t offset, classifier *classify, bool *doubted)
{
    size_t best = reach;
    size_t idle = reach; // where all threads' words say that they have none
    struct tally most = {0};
    uint64_t named = below(h->target) ? offset + reach : offset;
    if (offset != AS_UNKNOWN && named % WORD == 0 && named <= reach - WORD) {
        most = count_verdicts(h, libc_index, blocks, (size_t)named, classify, true);
        best = most.fits > 0 ? (size_t)named : reach;
    }
    // From the thread pointer outwards: of equals the nearest is static TLS, and what lies further off may be stack.
    for (size_t step = 0; best != named && step + WORD <= reach; step += WORD) {
        size_t distance = below(h->target) ? reach - WORD - step : step;
        struct tally tally = count_verdicts(h, libc_index, blocks, distance, classify, false);
        if (idle == reach && tally.idle > 0 && tally.wrong == 0 && tally.fits == 0)
            idle = distance;
        if (tally.fits > tally.wrong && (best == reach || tally.fits > most.fits)) {
            best = distance;
            most = tally;
        }
    }
    *doubted = best != reach && most.wrong > 0;
    return best != reach ? best : idle;
}

// The word of a thread's block that lies at `distance` from its beginning.
static bool read_word(struct as_target *t, size_t thread, size_t reach, size_t distance, uint64_t *word)
{
    uint64_t tp = t->threads.items[thread].tp;
    if (tp == AS_UNKNOWN || tp < reach || tp % WORD != 0)
        return false;
    return as_target_read_u64(t, (below(t) ? tp - reach : tp) + distance, word);
}

static bool find_in_first_libc(struct as_heaps *h, uint32_t libc_index, size_t reach, bool *all, struct as_error *err)
{
    byte_vec memory = {0};
    block_vec blocks = {0};
    bool ok = read_blocks(h->target, reach, &memory, &blocks, err);
    bool doubted[2] = {false, false};
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    size_t tcache =
        ok ? find_offset(h, libc_index, &blocks, reach, libc->tls_tcache, classify_tcache, &doubted[0]) : reach;
    size_t arena =
        ok ? find_offset(h, libc_index, &blocks, reach, libc->tls_thread_arena, classify_arena, &doubted[1]) : reach;
    bool has_tcache = as_has_tcache(h, libc_index);
    if (tcache != reach)
        h->tcache_distance = (int64_t)tcache - (below(h->target) ? (int64_t)reach : 0);
    for (size_t i = 0; ok && i < h->threads.count; i++) {
        struct as_thread_use *use = &h->threads.items[i];
        uint64_t word;
        bool open = use->tcache == AS_UNKNOWN && !use->tcache_invalid;
        if (tcache != reach && open && read_word(h->target, i, reach, tcache, &word)) {
            enum verdict v = classify_tcache(h, libc_index, word);
            use->tcache = v == FITS ? word : v == WRONG ? AS_UNKNOWN : 0;
            use->tcache_invalid = v == WRONG;
        }
        if (arena != reach && use->arena == UINT32_MAX && read_word(h->target, i, reach, arena, &word))
            use->arena = arena_at(h, libc_index, word);
    }
    *all = arena != reach && (tcache != reach || !has_tcache) && !doubted[0] && !doubted[1];
    as_vec_free(&memory);
    as_vec_free(&blocks);
    return ok;
}

// Whether no thread can have a tcache: before 2.26, and where this malloc has not been called yet, as when another allocator
// replaces it. (Not where mp_.tcache_count is 0, which one damaged word could be.)
static bool no_tcaches(const struct as_heaps *h, uint32_t libc_index)
{
    if (!as_has_tcache(h, libc_index))
        return true;
    if (h->pars.items[libc_index].n_mmaps != 0) // where the threshold is low it may have mmapped all that it handed out
        return false;
    AS_FOR_EACH(const struct as_arena, arena, &h->arenas)
        if (arena->libc_index == libc_index && (arena->top != 0 || arena->system_mem != 0))
            return false;
    return true;
}

// The tcaches that the threads have in another libc than the first, which dlmopen loaded. Its thread-local variables are in
// static TLS too (its own code takes no other), wherever the loader had room for them; `taken`: another libc's are there.
static bool find_in_other_libc(struct as_heaps *h, uint32_t libc_index, size_t reach, const block_vec *blocks,
                               struct as_error *err)
{
    struct as_target *t = h->target;
    bool doubted;
    uint64_t named = h->malloc->libcs.items[libc_index].tls_tcache;
    size_t distance = find_offset(h, libc_index, blocks, reach, named, classify_tcache, &doubted);
    bool all = distance != reach;
    for (size_t i = 0; all && i < t->threads.count; i++) {
        uint64_t word;
        enum verdict v = read_word(t, i, reach, distance, &word) ? classify_tcache(h, libc_index, word) : WRONG;
        all &= v != WRONG;
        if (v != FITS)
            continue;
        if (!as_vec_push(&h->other_tcaches, err, (struct as_other_tcache){.address = word, .libc_index = libc_index}))
            return false;
    }
    h->tcaches_known.items[libc_index] = all;
    return true;
}

static bool find_in_other_libcs(struct as_heaps *h, struct as_error *err)
{
    byte_vec memory = {0};
    block_vec blocks = {0};
    bool ok = read_blocks(h->target, NEAR, &memory, &blocks, err);
    for (uint32_t i = 1; ok && i < h->malloc->libcs.count; i++)
        ok = !as_has_tcache(h, i) || find_in_other_libc(h, i, NEAR, &blocks, err);
    as_vec_free(&memory);
    as_vec_free(&blocks);
    return ok;
}

bool as_threads_find(struct as_heaps *h, struct as_error *err)
{
    struct as_target *t = h->target;
    if (!as_vec_reserve(&h->threads, t->threads.count, err))
        return false;
    h->threads.count = t->threads.count;
    for (size_t i = 0; i < t->threads.count; i++)
        h->threads.items[i] = (struct as_thread_use){
            .tcache = AS_UNKNOWN, .tcache_count = AS_UNKNOWN, .tcache_bytes = AS_UNKNOWN, .arena = UINT32_MAX};
    if (!as_vec_reserve(&h->tcaches_known, h->malloc->libcs.count + 1, err))
        return false;
    for (h->tcaches_known.count = 0; h->tcaches_known.count < h->malloc->libcs.count; h->tcaches_known.count++)
        h->tcaches_known.items[h->tcaches_known.count] = false;
    if (h->malloc->libcs.count == 0)
        return true;
    bool all = false;
    if (!find_in_first_libc(h, 0, NEAR, &all, err) || (!all && !find_in_first_libc(h, 0, FAR, &all, err)))
        return false;
    bool none = no_tcaches(h, 0);
    h->tcaches_known.items[0] = t->threads.count > 0;
    for (size_t i = 0; i < t->threads.count; i++) {
        if (none && h->threads.items[i].tcache == AS_UNKNOWN)
            h->threads.items[i].tcache = 0;
        h->tcaches_known.items[0] &= h->threads.items[i].tcache != AS_UNKNOWN;
    }
    return h->malloc->libcs.count < 2 || find_in_other_libcs(h, err);
}
