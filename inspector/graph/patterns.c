// SPDX-License-Identifier: MIT
#include "graph/patterns.h"
#include "base/memory.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    MOST_WORDS = 5,   // of struct _IO_FILE: _IO_write_base, _IO_write_ptr, _IO_write_end, _IO_buf_base, _IO_buf_end
    LEAST_TEXT = 15,  // what is shorter, std::string has in itself
    LEAST_PLAIN = 16, // bytes of text that no number is by chance
};
#define LARGEST (UINT64_C(1) << 47)

bool as_patterns_open(struct as_patterns *p, const struct as_index *x, const struct as_vtables *v, uint32_t page_size,
                      struct as_error *err)
{
    *p = (struct as_patterns){.index = x, .begins = v->begins, .page_size = page_size};
    p->of_node = as_memory_map_large(((size_t)x->count + 1) * sizeof *p->of_node, "the patterns of chunks", err);
    p->shape = p->of_node ? as_memory_map_large((size_t)x->count + 1, "the shapes of chunks", err) : NULL;
    pthread_mutex_init(&p->lock, NULL);
    as_anchors_open(&p->anchors, x, page_size);
    as_claims_open(&p->claims, x, page_size);
    return p->shape;
}

void as_patterns_close(struct as_patterns *p)
{
    if (!p->index)
        return;
    as_memory_unmap(p->of_node, ((size_t)p->index->count + 1) * sizeof *p->of_node);
    as_memory_unmap(p->shape, (size_t)p->index->count + 1);
    as_number_map_free(&p->few);
    as_number_map_free(&p->tables);
    as_vec_free(&p->buckets);
    as_anchors_close(&p->anchors);
    as_claims_close(&p->claims);
    as_number_map_free(&p->lengths);
    pthread_mutex_destroy(&p->lock);
    *p = (struct as_patterns){0};
}

enum { BUCKETS_HEAD = 2, BITS = 64 };

uint64_t *as_pattern_add_buckets(struct as_patterns *p, uint32_t node, uint64_t before, uint64_t count)
{
    size_t words = BUCKETS_HEAD + (size_t)(count / BITS) + 1, at = p->buckets.count;
    if (at + words > UINT32_MAX || !as_vec_reserve(&p->buckets, words, NULL) ||
        !as_number_map_put(&p->tables, (uint64_t)node + 1, (uint32_t)at + 1, NULL))
        return NULL;
    uint64_t *table = p->buckets.items + at;
    memset(table, 0, words * sizeof *table);
    table[0] = before;
    table[1] = count;
    p->buckets.count += words;
    return table + BUCKETS_HEAD;
}

struct as_buckets as_pattern_buckets(const struct as_patterns *p, uint32_t node)
{
    uint32_t at = as_number_map_get(&p->tables, (uint64_t)node + 1);
    if (at == 0)
        return (struct as_buckets){0};
    const uint64_t *table = p->buckets.items + at - 1;
    return (struct as_buckets){table[0], table[1], table + BUCKETS_HEAD};
}

static bool is_made_for(const struct as_patterns *p, uint32_t node, uint64_t chunk, uint64_t request, uint64_t *usable)
{
    return as_index_is_made_for(p->index, node, chunk, request, p->page_size, usable);
}

// `before_end`: bytes of it.
static void note_array(struct as_patterns *p, uint32_t node, enum as_pattern pattern, uint64_t before_end,
                       uint64_t before_limit, uint64_t usable)
{
    uint64_t words = as_align_up(before_end, WORD) / WORD;
    uint32_t length = words <= AS_MOST_LENGTH ? (uint32_t)words : AS_MOST_LENGTH + 1;
    if (length > AS_MOST_LENGTH && pattern == AS_PATTERN_ARRAY) {
        pthread_mutex_lock(&p->lock);
        as_number_map_put(&p->lengths, (uint64_t)node + 1, words < UINT32_MAX ? (uint32_t)words : UINT32_MAX, NULL);
        pthread_mutex_unlock(&p->lock);
    }
    as_pattern_note(p, node, as_pattern_make_note(pattern, before_limit, usable, length));
}

// std::vector<bool>: three positions, the first and the second with the number of a bit.
static bool is_bits(const uint64_t *w)
{
    return w[1] == 0 && w[2] > w[0] && w[3] < 64 && w[4] >= w[2] && w[4] - w[0] < LARGEST;
}

// libc++'s std::string: its capacity, with a bit that says that it is not in the string itself, and its length are before the pointer.
// The capacity is a multiple of 16; from LLVM 19 on of 8, and 26 instead of 24, of which one less would fit into the string itself.
static bool is_text_behind(const struct as_beside *b, uint64_t before[2])
{
    if (b->before < 2)
        return false;
    memcpy(before, b->words - sizeof(uint64_t[2]), sizeof(uint64_t[2]));
    return (before[0] % WORD == 1 || before[0] == 27) && before[0] < LARGEST && before[1] < before[0] &&
           before[1] >= LEAST_TEXT;
}

void as_pattern_match(struct as_patterns *p, uint32_t node, const struct as_beside *b)
{
    uint64_t w[MOST_WORDS], before[2], usable;
    for (size_t i = 0; i < MOST_WORDS; i++)
        w[i] = as_beside_word(b, i);
    bool more = b->count >= MOST_WORDS;
    uint64_t begin = w[0], chunk = begin - AS_HEADER;
    if (w[1] > begin && w[1] <= w[2] && w[2] - begin < LARGEST && is_made_for(p, node, chunk, w[2] - begin, &usable)) {
        bool stdio = w[3] == begin && w[4] == w[2];
        note_array(p, node, stdio ? AS_PATTERN_STDIO : AS_PATTERN_ARRAY, w[1] - begin, w[2] - begin, usable);
        if (more && w[3] >= w[2] && w[3] - begin <= usable) // libc++'s std::deque has an end before the limit
            as_anchor_match(&p->anchors, node, b);
    } else if (w[1] <= w[2] && w[2] >= LEAST_TEXT && w[2] < LARGEST && is_made_for(p, node, chunk, w[2] + 1, &usable)) {
        as_pattern_note_text(p, node, w[1], w[2] + 1, usable, true);
    } else if (is_bits(w) && is_made_for(p, node, chunk, w[4] - begin, &usable)) {
        as_pattern_note(p, node, as_pattern_make_note(AS_PATTERN_BITS, w[4] - begin, usable, 0));
    } else if (is_text_behind(b, before) && is_made_for(p, node, chunk, before[0] - 1, &usable)) {
        as_pattern_note_text(p, node, before[1], before[0] - 1, usable, true);
    } else {
        if (as_anchor_may_be(w))
            as_anchor_match(&p->anchors, node, b);
        if (as_claim_may_be_beside(b))
            as_candidate_match_beside(&p->claims, node, b);
        if (as_claim_may_be_text(b))
            as_text_match(p, node, b);
    }
}

// Text has no control characters but those of white space. Bytes of 0x80 and more are UTF-8's.
static bool is_text(uint8_t byte)
{
    return (byte >= ' ' && byte != 0x7f) || (byte >= '\t' && byte <= '\r');
}

static const uint64_t EACH_BYTE = UINT64_C(0x0101010101010101), EACH_SIGN = UINT64_C(0x8080808080808080);

// Is one of the eight bytes below `limit`, which is 128 at most?
static bool has_below(uint64_t bytes, uint64_t limit)
{
    return (bytes - EACH_BYTE * limit) & ~bytes & EACH_SIGN;
}

// Are all eight of the kind that text mostly has: neither control characters, nor white space but the blank?
static bool are_plain_text(uint64_t bytes)
{
    return !has_below(bytes, ' ') && !has_below(bytes ^ EACH_BYTE * 0x7f, 1);
}

// Each node has one thread that sees its beginning.
void as_pattern_begin(struct as_patterns *p, uint32_t node, const uint8_t *bytes, size_t count)
{
    size_t length = 0, most = count < AS_LONG ? count : AS_LONG;
    uint64_t word, seen = 0; // bits that are set in any byte of the text
    memcpy(&word, bytes, sizeof word);
    if (has_below(word, 1)) // a byte is 0: most chunks begin with a pointer, or with a small number
        return;
    for (; length + WORD <= most; length += WORD) {
        memcpy(&word, bytes + length, sizeof word);
        if (!are_plain_text(word))
            break;
        seen |= word;
    }
    for (; length < most && is_text(bytes[length]); length++)
        seen |= bytes[length];
    if (length < WORD || length >= count) // what the block cuts off is not known
        return;
    p->begins[node] = (uint16_t)(AS_BEGINS_TEXT + length);
    if (length >= LEAST_PLAIN && length < AS_LONG && bytes[length] == 0 && !(seen & EACH_SIGN)) // ASCII
        p->shape[node] = AS_SHAPE_BEGINS;
}

const char *as_pattern_name(enum as_pattern pattern)
{
    static const char *const names[AS_PATTERNS] = {
        [AS_PATTERN_TEXT] = "text (pointer, length, capacity)",
        [AS_PATTERN_BYTES] = "bytes (pointer, length, capacity)",
        [AS_PATTERN_ARRAY] = "array (begin, end, limit)",
        [AS_PATTERN_STDIO] = "stdio buffer",
        [AS_PATTERN_BITS] = "bits (begin, end, limit)",
    };
    return names[pattern];
}

void as_pattern_give(struct as_patterns *p, uint32_t node, enum as_shape shape)
{
    if (shape != AS_SHAPE_MARIADB && shape > AS_SHAPE_END && as_pattern_of(p, node) == AS_PATTERN_BYTES)
        as_pattern_note(p, node, AS_PATTERN_NONE);
    if (shape < AS_SHAPE_FEW)
        p->shape[node] = (uint8_t)shape;
    else if (as_number_map_put(&p->few, (uint64_t)node + 1, (uint32_t)shape, NULL))
        p->shape[node] = AS_SHAPE_FEW;
}
