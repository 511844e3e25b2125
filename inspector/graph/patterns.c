// SPDX-License-Identifier: MIT
#include "graph/patterns.h"
#include "base/align.h"
#include "base/memory.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    TRIPLE = 3,
    STDIO_WORDS = 5, // of struct _IO_FILE: _IO_write_base, _IO_write_ptr, _IO_write_end, _IO_buf_base, _IO_buf_end
    LEAST_TEXT = 15, // what is shorter, std::string has in itself
};

bool as_patterns_open(struct as_patterns *p, const struct as_index *x, uint32_t page_size, struct as_error *err)
{
    *p = (struct as_patterns){.index = x, .page_size = page_size};
    p->of_node = as_memory_map((size_t)x->count + 1, "the patterns of chunks", err);
    p->text = p->of_node ? as_memory_map((size_t)x->count + 1, "the patterns of chunks", err) : NULL;
    p->length = p->text ? as_memory_map((size_t)x->count + 1, "the patterns of chunks", err) : NULL;
    return p->length;
}

void as_patterns_close(struct as_patterns *p)
{
    if (!p->index)
        return;
    as_memory_unmap(p->of_node, (size_t)p->index->count + 1);
    as_memory_unmap(p->text, (size_t)p->index->count + 1);
    as_memory_unmap(p->length, (size_t)p->index->count + 1);
    *p = (struct as_patterns){0};
}

static bool ends_at(const struct as_index *x, uint32_t node, uint64_t end)
{
    return as_index_at(x, end) == node + 1 && as_index_at(x, end - AS_ALIGNMENT) == node;
}

// Was the chunk at `chunk` made for `request` bytes? malloc rounds up, and leaves what is too little for another chunk with it. *usable: bytes.
static bool is_made_for(const struct as_patterns *p, uint32_t node, uint64_t chunk, uint64_t request, uint64_t *usable)
{
    uint64_t size = as_align_up(request + WORD, AS_ALIGNMENT);
    size = size < AS_MIN_CHUNK ? AS_MIN_CHUNK : size;
    *usable = size - WORD;
    if (ends_at(p->index, node, chunk + size))
        return true;
    *usable += AS_ALIGNMENT;
    if (ends_at(p->index, node, chunk + size + AS_ALIGNMENT))
        return true;
    *usable = request; // of a mapping of its own nobody needs to know what is spare
    return ends_at(p->index, node, as_align_up(chunk + request + WORD, p->page_size));
}

static void note(struct as_patterns *p, uint32_t node, enum as_pattern pattern, uint64_t used, uint64_t usable)
{
    uint64_t spare = (usable - as_align_up(used, WORD)) / WORD;
    unsigned words = usable < as_align_up(used, WORD) ? 0 : spare > AS_MOST_SPARE ? AS_MOST_SPARE : (unsigned)spare;
    // Two threads may note the same; of two that differ, either is true.
    __atomic_store_n(&p->of_node[node], (uint8_t)((unsigned)pattern | words << AS_SPARE_SHIFT), __ATOMIC_RELAXED);
}

void as_pattern_look(struct as_patterns *p, uint32_t node, const uint8_t *words, size_t count)
{
    uint64_t w[STDIO_WORDS], usable;
    if (count < TRIPLE)
        return;
    size_t known = count < STDIO_WORDS ? count : STDIO_WORDS;
    memcpy(w, words, known * WORD);
    uint64_t begin = w[0], chunk = begin - AS_HEADER;
    const uint64_t largest = UINT64_C(1) << 47;
    if (w[1] > begin && w[1] <= w[2] && w[2] - begin < largest) {
        if (!is_made_for(p, node, chunk, w[2] - begin, &usable))
            return;
        bool stdio = known == STDIO_WORDS && w[3] == begin && w[4] == w[2];
        note(p, node, stdio ? AS_PATTERN_STDIO : AS_PATTERN_ARRAY, w[2] - begin, usable);
    } else if (w[1] <= w[2] && w[2] >= LEAST_TEXT && w[2] < largest && is_made_for(p, node, chunk, w[2] + 1, &usable)) {
        note(p, node, AS_PATTERN_TEXT, w[2] + 1, usable);
        __atomic_store_n(&p->length[node], (uint8_t)(w[1] < AS_LONG ? w[1] : AS_LONG), __ATOMIC_RELAXED);
    }
}

// Of text: no control characters but those of white space. Bytes of 0x80 and more are UTF-8's.
static bool is_text(uint8_t byte)
{
    return (byte >= ' ' && byte != 0x7f) || (byte >= '\t' && byte <= '\r');
}

// Each node has one thread that sees its beginning.
void as_pattern_begin(struct as_patterns *p, uint32_t node, const uint8_t *bytes, size_t count)
{
    size_t length = 0;
    while (length < count && length < AS_LONG && is_text(bytes[length]))
        length++;
    if (length >= WORD && length < count) // what the block cuts off is not known
        p->text[node] = (uint8_t)length;
}

const char *as_pattern_name(enum as_pattern pattern)
{
    static const char *const names[AS_PATTERNS] = {
        [AS_PATTERN_TEXT] = "text (pointer, length, capacity)",
        [AS_PATTERN_BYTES] = "bytes (pointer, length, capacity)",
        [AS_PATTERN_ARRAY] = "array (begin, end, limit)",
        [AS_PATTERN_STDIO] = "stdio buffer",
    };
    return names[pattern];
}
