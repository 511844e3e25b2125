// SPDX-License-Identifier: MIT
// What a frame is called, at its first sight: the names are copied, as a code object and all that it names may be gone when
// somebody asks.
#include "recorder/python/python.h"

#include <string.h>

// --- Lines ------------------------------------------------------------------------------------------------------------

// The table of lines (Objects/locations.md): entries that begin with a byte with the top bit set, which has a kind and for how many code
// units the entry stands. What else an entry says, none of its other bytes has that bit.
enum { ENTRY = 0x80, ENTRY_UNITS = 7, ENTRY_KIND = 15, ENTRY_KIND_SHIFT = 3, UNIT = 2 };
enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NO_LOCATION = 15 };
enum { PIECE_BITS = 6, PIECE_MORE = 0x40, MOST_SHIFT = 30 };

static int64_t line_delta(const uint8_t *at, const uint8_t *end, unsigned kind)
{
    uint64_t value = 0;
    if (kind != NO_COLUMNS && kind != LONG)
        return kind >= ONE_LINE && kind < NO_COLUMNS ? (int64_t)kind - ONE_LINE : 0;
    for (unsigned shift = 0; at < end && shift <= MOST_SHIFT; shift += PIECE_BITS) {
        value |= (uint64_t)(*at & (PIECE_MORE - 1)) << shift;
        if (!(*at++ & PIECE_MORE))
            break;
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

// 0: it has none.
static uint64_t line_of(const struct as_python_text *table, int64_t first, int64_t at)
{
    const uint8_t *entry = (const uint8_t *)table->at, *end = entry + table->length;
    int64_t line = first, behind = 0;
    while (at >= 0 && entry < end && (*entry & ENTRY)) {
        unsigned kind = *entry >> ENTRY_KIND_SHIFT & ENTRY_KIND;
        line += line_delta(entry + 1, end, kind);
        behind += ((*entry & ENTRY_UNITS) + 1) * UNIT;
        if (at < behind)
            return kind == NO_LOCATION || line < 0 ? 0 : (uint64_t)line;
        do
            entry++;
        while (entry < end && !(*entry & ENTRY));
    }
    return at < 0 && first > 0 ? (uint64_t)first : 0; // before its first instruction: where the function begins
}

// --- Names ------------------------------------------------------------------------------------------------------------

static uint32_t character(const struct as_python_text *text, size_t i)
{
    if (text->kind == 1)
        return ((const uint8_t *)text->at)[i];
    return text->kind == 2 ? ((const uint16_t *)text->at)[i] : ((const uint32_t *)text->at)[i];
}

// UTF-8. A byte of a file's name that could not be decoded is the byte again.
static size_t encode(uint32_t c, char bytes[4])
{
    enum { UNDECODED = 0xdc80, LAST_UNDECODED = 0xdcff };
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (c >= UNDECODED && c <= LAST_UNDECODED) {
        bytes[0] = (char)(c & 0xff);
        return 1;
    }
    if (length == 1) {
        bytes[0] = (char)c;
        return 1;
    }
    for (size_t i = length; i-- > 1; c >>= PIECE_BITS)
        bytes[i] = (char)(0x80 | (c & 0x3f));
    bytes[0] = (char)(0xf00 >> length | c);
    return length;
}

// As much as there is room for; "": it cannot be read.
static void copy_text(uintptr_t object, char *to, size_t room)
{
    struct as_python_text text;
    size_t used = 0;
    to[0] = '\0';
    if (!as_python_text(object, &text))
        return;
    for (size_t i = 0; i < text.length; i++) {
        char bytes[4];
        size_t length = encode(character(&text, i), bytes);
        if (used + length >= room || bytes[0] == '\0')
            break;
        memcpy(to + used, bytes, length);
        used += length;
    }
    to[used] = '\0';
}

uint64_t as_python_name(struct as_inner_walk *walk, const struct as_inner_frame *frame)
{
    const struct as_python_layout *l = &as_python.layout;
    struct as_python_text lines;
    uint64_t line = 0;
    uint32_t first_line = as_inner_half(frame->code + l->first_line);
    copy_text(as_inner_word(frame->code + l->name), walk->name, sizeof walk->name);
    copy_text(as_inner_word(frame->code + l->file), walk->file, sizeof walk->file);
    if (as_python_bytes(as_inner_word(frame->code + l->lines), &lines))
        line = line_of(&lines, (int32_t)first_line, frame->at);
    return as_inner_line(walk, first_line, line);
}
