// SPDX-License-Identifier: MIT
// Texts whose length and capacity lie beside the pointer in another order than std::string has them: Rust's String (capacity, pointer,
// length; in older releases pointer, capacity, length), and buffers of C programs (capacity, length, pointer). None needs a zero behind
// the text.
#include "graph/patterns.h"

static bool try_order(struct as_patterns *p, uint32_t node, uint64_t pointer, uint64_t length, uint64_t capacity)
{
    uint64_t usable;
    if (length < AS_LEAST_NUMBER || length > capacity || capacity >= AS_MOST_NUMBER ||
        !as_index_is_made_for(p->index, node, pointer - AS_HEADER, capacity, p->page_size, &usable))
        return false;
    as_pattern_note_text(p, node, length, capacity, usable, false);
    return true;
}

void as_text_match(struct as_patterns *p, uint32_t node, const struct as_beside *b)
{
    uint64_t pointer = as_word_at(b->words, 0), behind = as_beside_word(b, 1);
    uint64_t before = b->before >= 1 ? as_word_at(b->words, -1) : 0;
    if (try_order(p, node, pointer, behind, before) || try_order(p, node, pointer, as_beside_word(b, 2), behind) ||
        b->before < 2)
        return;
    try_order(p, node, pointer, before, as_word_at(b->words, -2));
}
