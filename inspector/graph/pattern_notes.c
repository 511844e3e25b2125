// SPDX-License-Identifier: MIT
#include "graph/patterns.h"

enum { LEAST_BYTES = 256 };

void as_pattern_note_text(struct as_patterns *p, uint32_t node, uint64_t length, uint64_t request, uint64_t usable,
                          bool bytes)
{
    enum as_pattern pattern = bytes && request >= LEAST_BYTES ? AS_PATTERN_BYTES
                              : length == request             ? AS_PATTERN_FULL
                                                              : AS_PATTERN_TEXT;
    uint16_t none =
        0; // what a std::string or a std::vector says of it counts more, also if another thread has seen it now
    uint16_t text = as_pattern_make_note(pattern, request, usable, length < AS_LONG ? (uint32_t)length : AS_LONG);
    if (bytes)
        as_pattern_note(p, node, text);
    else
        __atomic_compare_exchange_n(&p->of_node[node], &none, text, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
