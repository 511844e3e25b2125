// SPDX-License-Identifier: MIT
// The containers of Qt 5 and 6: QString, QHash, and of Qt 5 QByteArray, QVector and QMap. QMap of Qt 6 is a std::map, and QObject and what
// its d-pointer leads to have vtables. A program that has not mapped Qt's library pays nothing.
//
// QList of Qt 5, and arrays of Qt 6 that are no text, have no name: a few small numbers before pointers prove nothing.
#include "recognisers/libraries.h"
#include "recognisers/qt_tables.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    UNIT = sizeof(uint16_t),
    // Qt 5's header of an array: references and size, room (and a flag), where the elements are.
    HEADER5 = 24,
    ROOM5 = 0x7fffffff,
    // Qt 6's: references and flags, room. The zero behind a text is not of the room.
    HEADER6 = 16 + UNIT,
    FLAGS6 = 1,
    MOST_ARRAYS = 1 << 24,
    MOST_TEXT = 1 << 19, // bytes: what the window can hold
    MOST_PASSES = 8,
};
#define MOST_ROOM (UINT64_C(1) << 36)

// An array; of Qt 6 only what may be text. Words left over may lead to it with its size beside, and other structures begin with two such
// numbers: so other arrays of Qt 6 have no name.
struct array {
    uint32_t node;
    uint64_t address, room, usable;
    uint64_t elements, size;
};

// What the words beside a pointer to an array of Qt 6 say of it. They may be left over from an array that was there before.
struct beside {
    uint32_t array;
    uint64_t elements, size;
};

struct qt_reading {
    struct as_qt qt;
    bool five, six;              // which releases of Qt are there
    AS_VEC(struct array) arrays; // by address
    AS_VEC(struct beside) beside;
};

// Is the chunk as large as so many elements of any size make it, beside a header?
static bool is_array(const struct as_qt *q, uint64_t address, uint64_t usable, uint64_t header, uint64_t room)
{
    return room > 0 && room < MOST_ROOM && usable > header && (usable - header) / room > 0 &&
           as_proof_is_made_for(&q->proof, address, header + (usable - header) / room * room);
}

static uint16_t unit_at(const uint8_t *text, uint64_t i)
{
    uint16_t unit;
    memcpy(&unit, text + i * UNIT, UNIT);
    return unit;
}

// Is it UTF-16 without control characters, and a zero behind it?
static bool is_utf16(const uint8_t *text, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t unit = unit_at(text, i);
        bool high = unit >> 10 == 0xd800 >> 10, low = unit >> 10 == 0xdc00 >> 10;
        if ((unit < ' ' && (unit < '\t' || unit > '\r')) || unit >= 0xfffe || low)
            return false;
        if (high && (++i == count || unit_at(text, i) >> 10 != 0xdc00 >> 10))
            return false;
    }
    return count > 0 && unit_at(text, count) == 0;
}

// Is it text in UTF-16, in a chunk with room for it? A small chunk may have room for as many bytes just as well: of these, one must be
// 0 then.
static bool is_text(struct as_qt *q, const struct array *a, uint64_t header)
{
    uint64_t before = a->elements - a->address, bytes = (a->size + 1) * UNIT;
    if (a->size == 0 || a->size >= MOST_TEXT / UNIT || before + bytes > a->usable ||
        !as_proof_is_made_for(&q->proof, a->address, header + a->room * UNIT))
        return false;
    const uint8_t *text = as_window_at(&q->window, a->elements, bytes);
    return text && is_utf16(text, a->size) &&
           (memchr(text, 0, a->size) || !as_proof_is_made_for(&q->proof, a->address, header + a->room));
}

// Its own header says where the elements are: right behind it.
static bool match_array5(struct qt_reading *r, const struct as_used_chunk *chunk, const uint64_t w[3])
{
    struct array a = {.node = chunk->node, .address = chunk->address + AS_HEADER, .usable = chunk->size - WORD};
    a.room = w[1] & ROOM5;
    a.size = w[0] >> 32;
    a.elements = a.address + HEADER5;
    if (w[2] != HEADER5 || !as_qt_is_reference(w[0]) || a.size == 0 || a.size > a.room ||
        !is_array(&r->qt, a.address, a.usable, HEADER5, a.room))
        return false;
    as_proof_give(&r->qt.proof, a.node, is_text(&r->qt, &a, HEADER5) ? AS_SHAPE_QT_TEXT : AS_SHAPE_QT_ARRAY);
    return true;
}

static void match_text6(struct qt_reading *r, const struct as_used_chunk *chunk, const uint64_t w[2])
{
    uint64_t address = chunk->address + AS_HEADER;
    if (!as_qt_is_reference(w[0]) || w[0] >> 32 > FLAGS6 || r->arrays.count >= MOST_ARRAYS || w[1] == 0 ||
        w[1] >= MOST_ROOM || !as_proof_is_made_for(&r->qt.proof, address, HEADER6 + w[1] * UNIT))
        return;
    struct array *added = as_vec_add(&r->arrays, NULL);
    if (added)
        *added = (struct array){.node = chunk->node, .address = address, .room = w[1], .usable = chunk->size - WORD};
}

static void match_chunks(struct qt_reading *r)
{
    for (struct as_used_cursor c = as_used_begin(r->qt.proof.patterns->index); as_used_next(&c);) {
        uint64_t w[3];
        const void *bytes = as_window_at(&r->qt.window, c.chunk.address + AS_HEADER, sizeof w);
        if (!bytes)
            continue;
        memcpy(w, bytes, sizeof w);
        if (r->five && !match_array5(r, &c.chunk, w))
            as_qt5_match_tables(&r->qt, &c.chunk);
        if (r->six) {
            match_text6(r, &c.chunk, w);
            as_qt6_match_table(&r->qt, &c.chunk);
        }
    }
}

static struct array *find_array(struct qt_reading *r, uint32_t node)
{
    size_t at = AS_PARTITION_POINT(0, r->arrays.count, i, r->arrays.items[i].node < node);
    return at < r->arrays.count && r->arrays.items[at].node == node ? &r->arrays.items[at] : NULL;
}

// Behind the pointer to the array are where its elements begin and how many there are.
static void match_beside(struct qt_reading *r, uint64_t word, uint32_t to)
{
    const struct array *a = find_array(r, to);
    const void *bytes = a && r->beside.count < MOST_ARRAYS ? as_window_at(&r->qt.window, word, 3 * WORD) : NULL;
    uint64_t w[3];
    if (!bytes)
        return;
    memcpy(w, bytes, sizeof w);
    uint64_t least = a->address + HEADER6 - UNIT;
    if (w[0] != a->address || w[1] < least || w[1] > a->address + a->usable || w[2] > a->room ||
        (a->usable - (w[1] - a->address)) < w[2])
        return;
    struct beside *added = as_vec_add(&r->beside, NULL);
    if (added)
        *added = (struct beside){(uint32_t)(a - r->arrays.items), w[1], w[2]};
}

static int by_array(const void *left, const void *right)
{
    const struct beside *a = left, *b = right;
    return a->array < b->array ? -1 : a->array > b->array;
}

// May the edge be the pointer to a text? The next word leads into it, too.
static bool may_be_text(const struct as_edges *e, uint32_t node, uint32_t edge, uint32_t end)
{
    uint32_t place = as_edge_place(e, edge), next = as_edge_next(e, edge);
    return as_edge_begins(e, edge) && place != AS_PLACE_FAR &&
           (place + 1 >= AS_PLACES_APART || (next < end && as_edge_place(e, next) == place + 1 &&
                                             as_edge_to(e, node, next) == as_edge_to(e, node, edge)));
}

static void prove_texts6(struct qt_reading *r)
{
    const struct as_edges *e = r->qt.edges;
    for (struct as_used_cursor c = as_used_begin(r->qt.proof.patterns->index); as_used_next(&c);)
        AS_FOR_EDGES(e, c.chunk.node, i) {
            uint64_t offset = (uint64_t)as_edge_place(e, i) * WORD;
            if (may_be_text(e, c.chunk.node, i, i_end) && offset + 3 * WORD <= c.chunk.size - WORD)
                match_beside(r, c.chunk.address + AS_HEADER + offset, as_edge_to(e, c.chunk.node, i));
        }
    if (r->beside.count > 0)
        qsort(r->beside.items, r->beside.count, sizeof *r->beside.items, by_array);
    AS_FOR_EACH(const struct beside, b, &r->beside) {
        struct array a = r->arrays.items[b->array];
        if (r->qt.proof.patterns->shape[a.node] == AS_SHAPE_QT_TEXT) // copies of a QString share it
            continue;
        a.elements = b->elements;
        a.size = b->size;
        if (is_text(&r->qt, &a, HEADER6))
            as_proof_give(&r->qt.proof, a.node, AS_SHAPE_QT_TEXT);
    }
}

bool as_qt_find(const struct as_recogniser_input *in)
{
    struct qt_reading r = {
        .qt = {.proof = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES},
               .edges = in->edges,
               .steps = MOST_PASSES * (in->edges->pointers + in->edges->nodes)},
        .five = as_proof_has_library(in->target, "/libQt5Core"),
        .six = as_proof_has_library(in->target, "/libQt6Core"),
    };
    if (!(r.five || r.six) || !as_window_open(&r.qt.window, in->target, NULL))
        return true;
    match_chunks(&r);
    if (r.arrays.count > 0)
        prove_texts6(&r);
    as_window_close(&r.qt.window);
    AS_FREE_VECS(&r, arrays, beside);
    return true;
}
