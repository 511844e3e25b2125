// SPDX-License-Identifier: MIT
// The last resort: no file, no names, only memory. An arena's empty bins are list heads that point at themselves, 16
// bytes before where they stand; nothing else in a program resembles 127 of them in a row, followed by a ring of arenas.
#include "libc/layouts.h"
#include "libc/memory_evidence.h"

enum {
    NEXT_AFTER_BINS = 2048,
    PIECE = 1 << 20,
    MAX_ARENAS_TRIED = 1024,
    MAX_TRIED = 65536
}; // bins[254] and binmap: the same distance in every release

// What is scanned of one object's writable memory; a static program may have any amount of data.
#define MAX_SCAN ((uint64_t)64 << 20)

struct memory {
    uint64_t start;
    AS_VEC(uint8_t) bytes; // what cannot be read is zeros
};

static bool copy_memory(struct as_target *t, uint64_t start, uint64_t end, struct memory *memory)
{
    *memory = (struct memory){.start = start};
    if (start % 8 || end <= start)
        return false;
    uint64_t size = end - start < MAX_SCAN ? end - start : MAX_SCAN;
    if (!as_vec_reserve(&memory->bytes, size, NULL))
        return false;
    memory->bytes.count = size;
    for (uint64_t at = 0; at < size;) {
        size_t piece = size - at < PIECE ? (size_t)(size - at) : PIECE;
        size_t got = as_target_read_resident(t, start + at, memory->bytes.items + at, piece);
        // Past a page that cannot be read there may be others that can.
        at += got == piece ? piece : got / t->page_size * t->page_size + t->page_size;
    }
    return true;
}

static uint64_t word_at(const struct memory *memory, uint64_t offset)
{
    return as_load_u64(memory->bytes.items + offset);
}

static bool is_empty_bin(const struct memory *memory, uint64_t offset)
{
    uint64_t self = memory->start + offset - 16;
    return word_at(memory, offset) == self && word_at(memory, offset + 8) == self;
}

// A thread's arena stands in the first page of its heap, behind a heap_info that names it. main_arena is the one of the
// ring that does not.
static bool is_thread_arena(struct as_target *t, uint64_t arena)
{
    uint64_t owner;
    return as_target_read_u64(t, arena & ~(uint64_t)4095, &owner) && owner == arena;
}

// Whether bins[] begins at that offset; if so, the answer says which rows and where main_arena is. *left: how many closer
// readings may still be taken, for memory that was made to resemble arenas all over.
static bool try_bins(struct as_target *t, const struct memory *memory, uint64_t offset, unsigned *left,
                     struct as_answer *answer)
{
    if (offset + NEXT_AFTER_BINS + 8 > memory->bytes.count)
        return false;
    uint64_t next = word_at(memory, offset + NEXT_AFTER_BINS);
    if (next == 0 || next % 8)
        return false;
    uint32_t tried = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        uint64_t bins = (uint64_t)as_layout_row(i)->state.bins;
        if (tried >> i & 1 || bins > offset)
            continue;
        for (unsigned k = i; k < AS_LAYOUT_ROWS; k++)
            tried |= (uint32_t)((uint64_t)as_layout_row(k)->state.bins == bins) << k;
        uint64_t main_arena = memory->start + offset - bins;
        uint64_t first = memory->start + offset - 16;
        // next leads to this arena or to a thread's; top is this bin until malloc starts, and in a heap from then on.
        uint64_t top = word_at(memory, offset - bins + (uint64_t)as_layout_row(i)->state.top);
        if (*left == 0 || top % 8 || (top != first && !as_is_heap_memory(t, top)))
            continue;
        --*left;
        uint32_t rows = as_live_state_rows(t, main_arena);
        if (rows && !is_thread_arena(t, main_arena)) {
            answer->main_arena = main_arena;
            answer->state_rows = rows;
            return true;
        }
    }
    return false;
}

bool as_scan_main_arena(struct as_target *t, uint64_t start, uint64_t end, struct as_answer *answer)
{
    struct memory memory;
    unsigned found = 0;
    unsigned left = MAX_ARENAS_TRIED;
    if (!copy_memory(t, start, end, &memory)) {
        as_vec_free(&memory.bytes);
        return false;
    }
    uint64_t size = memory.bytes.count;
    uint64_t previous = 0; // one past the empty bin seen before: windows that hold it have been tried
    for (uint64_t at = 16; at + 16 <= size; at += 8) {
        if (!is_empty_bin(&memory, at))
            continue;
        // This may be any bin of an arena whose bins before it are all in use.
        for (uint64_t i = 0; i < AS_BIN_COUNT && at >= i * 16 + 16 && at - i * 16 >= previous; i++) {
            if (try_bins(t, &memory, at - i * 16, &left, answer)) {
                found++;
                at += NEXT_AFTER_BINS; // this arena is done with
                break;
            }
        }
        previous = at + 8;
    }
    as_vec_free(&memory.bytes);
    return found == 1;
}

bool as_scan_par(struct as_target *t, uint64_t start, uint64_t end, struct as_answer *answer)
{
    struct memory memory;
    unsigned found = 0;
    unsigned tried = 0;
    if (!copy_memory(t, start, end, &memory)) {
        as_vec_free(&memory.bytes);
        return false;
    }
    for (uint64_t at = 0; at + 160 <= memory.bytes.count; at += 8) {
        // arena_test is 8 unless the program or its user asked for something else; snapshot closer at any number.
        bool has_tcache;
        if (word_at(&memory, at + 24) == 0 || !as_may_be_par(memory.bytes.items + at))
            continue;
        if (++tried > MAX_TRIED)
            break;
        uint32_t rows = as_live_par_rows(t, memory.start + at, answer->main_arena, answer->state_rows, &has_tcache);
        if (!rows)
            continue;
        answer->mp = memory.start + at;
        answer->par_rows = rows;
        answer->has_tcache = has_tcache;
        found++;
    }
    as_vec_free(&memory.bytes);
    if (found == 1)
        return true;
    answer->mp = AS_UNKNOWN;
    answer->par_rows = 0;
    return false;
}
