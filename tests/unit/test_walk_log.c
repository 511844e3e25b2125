// SPDX-License-Identifier: MIT
// What is written into a trace comes out of it: every size and class, across blocks, with the fastbins' members told.
#include "malloc/walk_log.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHUNKS = 300000, EACH = 100 };

struct blocks {
    struct as_walk_log_block *first, **end;
};

static bool keep(void *context, struct as_walk_log_block *block)
{
    struct blocks *b = context;
    *b->end = block;
    b->end = &block->next;
    return true;
}

struct reader {
    struct as_chunk_sink sink;
    const struct as_chunk *wanted;
    const bool *fast;
    size_t at;
};

static bool compare(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t count)
{
    struct reader *r = (struct reader *)sink;
    for (size_t i = 0; i < count; i++, r->at++) {
        CHECK(r->at < CHUNKS);
        CHECK(batch[i].address == r->wanted[r->at].address);
        CHECK(as_chunk_size(batch[i]) == as_chunk_size(r->wanted[r->at]));
        CHECK(as_chunk_class_of(batch[i]) == (r->fast[r->at] ? AS_CHUNK_FASTBIN : as_chunk_class_of(r->wanted[r->at])));
    }
    return true;
}

int main(void)
{
    struct as_chunk *chunks = calloc(CHUNKS, sizeof *chunks);
    bool *fast = calloc(CHUNKS, sizeof *fast);
    uint64_t *members = calloc(CHUNKS, sizeof *members);
    CHECK(chunks && fast && members);
    const uint64_t sizes[] = {32, 48, 464, 480, 496, 65535UL * 16, 65536UL * 16, UINT64_C(1) << 32, UINT64_C(3) << 40};
    uint64_t state = 88172645463325252;
    uint64_t address = UINT64_C(0x7f0000000000);
    size_t member_count = 0;
    for (size_t i = 0; i < CHUNKS; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint64_t size = state % 50 ? 32 + (state >> 20) % 64 * 16 : sizes[(state >> 20) % 9];
        uint64_t class = (state >> 50) % 7;
        chunks[i] = (struct as_chunk){.address = address, .tagged = size | class};
        if (class == AS_CHUNK_IN_USE && state % 3 == 0) {
            fast[i] = true;
            members[member_count++] = address;
        }
        address += size;
    }
    struct blocks b = {.end = &b.first};
    struct as_error err;
    struct as_walk_log_writer w = {.full = keep, .context = &b, .err = &err};
    struct as_heap heap = {.start = chunks[0].address, .end = address};
    CHECK(as_walk_log_begin(&w, &heap));
    for (size_t i = 0; i < CHUNKS; i += EACH)
        CHECK(w.sink.chunks(&w.sink, chunks + i, EACH));
    CHECK(as_walk_log_end(&w, address));

    struct reader r = {.sink = {.chunks = compare}, .wanted = chunks, .fast = fast};
    const uint64_t *member = members;
    size_t count = 0;
    for (struct as_walk_log_block *block = b.first; block; count++) {
        CHECK(block->first == (count == 0) && block->last == !block->next);
        CHECK(as_walk_log_replay(block, &r.sink, &member, members + member_count));
        struct as_walk_log_block *next = block->next;
        as_walk_log_block_free(block);
        block = next;
    }
    CHECK(count > 1 && r.at == CHUNKS && member == members + member_count);
    free(chunks);
    free(fast);
    free(members);
    return 0;
}
