// SPDX-License-Identifier: MIT
#include "runtimes/pointers.h"

enum { STEP = 4096 }; // words that are read in one go

bool as_pointers_search(const struct as_pointer_search *p, uint64_t start, uint64_t end)
{
    uint64_t words[STEP], pointers[AS_POINTERS], places[AS_POINTERS];
    size_t count = 0;
    for (uint64_t at = start; *p->reads_left > 0 && at < end; at += sizeof words) {
        size_t length = end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        length = as_target_read_resident(p->target, at, words, length);
        for (size_t i = 0; i < length / sizeof *words; i++) {
            if (words[i] == 0 || !p->is_candidate(p->context, at + i * sizeof *words, words[i]))
                continue;
            places[count] = at + i * sizeof *words;
            pointers[count++] = words[i];
            if (count == AS_POINTERS) {
                if (!p->follow(p->context, pointers, places, count))
                    return false;
                count = 0;
            }
        }
    }
    return count == 0 || p->follow(p->context, pointers, places, count);
}
