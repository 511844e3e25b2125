// SPDX-License-Identifier: MIT
#include "profile/remote_copy.h"
#include "base/memory.h"

#include <string.h>

enum {
    STEP = 1 << 20,   // bytes that are read at once
    PART = 4096,      // bytes of which a copy has nothing if they are zeros
    PIECE = 64 << 10, // bytes
    PLACES = 64,      // pieces that are kept
    TURNS = 2,        // so often may all pieces be read before a copy of all of them is made
};

static uint64_t bytes_of(const struct as_profile_source *s)
{
    return (s->count * s->entry + 7) / 8 * 8;
}

static uint64_t address_of(const struct as_profile_source *s)
{
    return s->head->self + s->table->offset;
}

static bool is_zeros(const char *bytes, uint64_t length)
{
    return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

static void copy_parts(char *to, const char *from, uint64_t length)
{
    for (uint64_t i = 0; i < length; i += PART) {
        uint64_t part = length - i < PART ? length - i : PART;
        if (!is_zeros(from + i, part))
            memcpy(to + i, from + i, part);
    }
}

void *as_profile_copy(const struct as_profile_source *s, struct as_error *err)
{
    uint64_t bytes = bytes_of(s), from = address_of(s);
    char *step = as_memory_map(STEP, "a piece of a profile", err);
    char *to = step ? as_memory_map(bytes + 1, "the tables of a profile", err) : NULL;
    for (uint64_t at = 0; to && at < bytes; at += STEP) {
        at = as_target_skip_missing(s->target, from + at) - from;
        uint64_t length = at >= bytes ? 0 : bytes - at < STEP ? bytes - at : STEP;
        if (length > 0 && as_target_read(s->target, from + at, step, length))
            copy_parts(to + at, step, length);
    }
    as_memory_unmap(step, STEP);
    return to;
}

void as_profile_copy_free(const struct as_profile_source *s, void *copy)
{
    as_memory_unmap(copy, bytes_of(s) + 1);
}

bool as_profile_pieces_open(struct as_profile_pieces *p, struct as_error *err)
{
    p->room = as_memory_map(PLACES * PIECE, "pieces of a profile", err);
    p->held = p->room ? as_memory_map(PLACES * sizeof *p->held, "pieces of a profile", err) : NULL;
    return p->held != NULL;
}

void as_profile_pieces_free(struct as_profile_pieces *p)
{
    as_memory_unmap(p->room, PLACES * PIECE);
    as_memory_unmap(p->held, PLACES * sizeof *p->held);
    as_profile_copy_free(&p->source, p->all);
}

static void read_piece(const struct as_profile_source *s, uint64_t piece, char *to)
{
    uint64_t at = piece * PIECE, bytes = bytes_of(s), from = address_of(s);
    uint64_t length = bytes - at < PIECE ? bytes - at : PIECE;
    uint64_t missing = as_target_skip_missing(s->target, from + at) - from - at;
    if (missing > length)
        missing = length;
    if (!as_target_read(s->target, from + at + missing, to + missing, length - missing))
        missing = length;
    memset(to, 0, missing);
}

// Pieces that are asked for in no order would be read for each page of the heap. Without memory for all, this goes on.
static void count_read(struct as_profile_pieces *p)
{
    if (p->reads++ < TURNS * (bytes_of(&p->source) / PIECE + 1) + PLACES)
        return;
    p->reads = 0;
    p->all = as_profile_copy(&p->source, NULL);
}

const void *as_profile_piece(struct as_profile_pieces *p, uint64_t index)
{
    uint64_t at = index * p->source.entry, piece = at / PIECE, place = piece % PLACES;
    if (p->all)
        return p->all + at;
    char *room = p->room + place * PIECE;
    if (p->held[place] != piece + 1) {
        read_piece(&p->source, piece, room);
        p->held[place] = piece + 1;
        count_read(p);
    }
    return room + at % PIECE;
}
