// SPDX-License-Identifier: MIT
// One byte: the class in the upper three bits, the size in units of 16 bytes in the lower five. The two largest values
// of those say that the size follows, in two or in eight bytes.
#include "malloc/walk_log.h"
#include "base/memory.h"

#include <string.h>

enum { SIZE_BITS = 5, WORD = 30, LONG = 31, LONGEST = 9, BATCH = 512 };

_Static_assert(sizeof(struct as_walk_log_block) <= 64 * 1024, "a block fills whole pages");

struct as_walk_log_block *as_walk_log_block_new(struct as_error *err)
{
    return as_memory_map(sizeof(struct as_walk_log_block), "a block of chunks", err);
}

void as_walk_log_block_free(struct as_walk_log_block *block)
{
    as_memory_unmap(block, sizeof *block);
}

// An empty block: a spare one, whose memory is there already, or a new one.
static struct as_walk_log_block *empty_block(struct as_walk_log_writer *w)
{
    struct as_walk_log_block *block = w->spare ? *w->spare : NULL;
    if (!block)
        return as_walk_log_block_new(w->err);
    *w->spare = block->next;
    block->next = NULL;
    block->first = block->last = false;
    block->length = 0;
    return block;
}

static inline uint8_t *put_chunk(uint8_t *to, struct as_chunk chunk)
{
    uint64_t units = as_chunk_size(chunk) / AS_ALIGNMENT;
    uint8_t class = (uint8_t)(as_chunk_class_of(chunk) << SIZE_BITS);
    if (units < WORD) {
        *to++ = (uint8_t)(class | units);
    } else if (units <= UINT16_MAX) {
        uint16_t word = (uint16_t)units;
        *to++ = class | WORD;
        memcpy(to, &word, sizeof word);
        to += sizeof word;
    } else {
        *to++ = class | LONG;
        memcpy(to, &units, sizeof units);
        to += sizeof units;
    }
    return to;
}

static bool next_block(struct as_walk_log_writer *w)
{
    struct as_walk_log_block *full = w->block;
    w->block = empty_block(w);
    if (!w->block) {
        as_walk_log_block_free(full);
        return false;
    }
    w->block->heap = full->heap;
    w->block->start = w->at;
    return w->full(w->context, full);
}

static bool on_chunks(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t count)
{
    struct as_walk_log_writer *w = (struct as_walk_log_writer *)sink;
    if (w->block->length + count * LONGEST > AS_WALK_LOG_BYTES && !next_block(w))
        return false;
    uint8_t *to = w->block->bytes + w->block->length;
    for (size_t i = 0; i < count; i++)
        to = put_chunk(to, batch[i]);
    w->block->length = (size_t)(to - w->block->bytes);
    w->at = batch[count - 1].address + as_chunk_size(batch[count - 1]);
    return true;
}

bool as_walk_log_begin(struct as_walk_log_writer *w, const struct as_heap *heap)
{
    w->sink.chunks = on_chunks;
    w->block = empty_block(w);
    if (!w->block)
        return false;
    w->block->heap = *heap;
    w->block->start = w->at = heap->start;
    w->block->first = true;
    return true;
}

bool as_walk_log_end(struct as_walk_log_writer *w, uint64_t heap_end)
{
    struct as_walk_log_block *block = w->block;
    w->block = NULL;
    block->last = true;
    block->end = heap_end;
    return w->full(w->context, block);
}

bool as_walk_log_replay(const struct as_walk_log_block *block, struct as_chunk_sink *sink, const uint64_t **fastbin,
                        const uint64_t *fastbin_end)
{
    struct as_chunk batch[BATCH];
    size_t count = 0;
    uint64_t address = block->start;
    const uint8_t *at = block->bytes;
    const uint8_t *end = at + block->length;
    const uint64_t *fast = *fastbin;
    uint64_t next_fast = fast < fastbin_end ? *fast : UINT64_MAX;
    while (at < end) {
        uint8_t code = *at++;
        uint64_t units = code & ((1 << SIZE_BITS) - 1);
        uint64_t class = code >> SIZE_BITS;
        if (units == WORD) {
            uint16_t word;
            memcpy(&word, at, sizeof word);
            at += sizeof word;
            units = word;
        } else if (units == LONG) {
            memcpy(&units, at, sizeof units);
            at += sizeof units;
        }
        if (address >= next_fast) {
            if (address == next_fast && class == AS_CHUNK_IN_USE)
                class = AS_CHUNK_FASTBIN;
            while (fast < fastbin_end && *fast <= address)
                fast++;
            next_fast = fast < fastbin_end ? *fast : UINT64_MAX;
        }
        uint64_t size = units * AS_ALIGNMENT;
        batch[count++] = (struct as_chunk){.address = address, .tagged = size | class};
        address += size;
        if (count == BATCH) {
            if (!sink->chunks(sink, batch, count))
                return false;
            count = 0;
        }
    }
    *fastbin = fast;
    return count == 0 || sink->chunks(sink, batch, count);
}
