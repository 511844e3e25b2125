// SPDX-License-Identifier: MIT
#include "recognisers/glibc.h"

#include <string.h>

enum { WORD = AS_GLIBC_WORD, TEXT_BLOCK = 64 };

bool as_glibc_read(struct as_glibc *g, uint64_t address, void *to, size_t size)
{
    if (g->tries == 0)
        return false;
    g->tries--;
    return as_target_read(g->proof.target, address, to, size);
}

uint64_t as_glibc_text(struct as_glibc *g, uint64_t address, char *text)
{
    char block[TEXT_BLOCK];
    for (uint64_t length = 0; length < AS_GLIBC_MOST_TEXT; length += TEXT_BLOCK) {
        size_t got = g->tries > 0 ? as_target_read_resident(g->proof.target, address + length, block, TEXT_BLOCK) : 0;
        g->tries -= g->tries > 0;
        const char *end = got > 0 ? memchr(block, 0, got) : NULL;
        size_t count = end ? (size_t)(end - block) : got;
        for (size_t i = 0; i < count; i++)
            if ((unsigned char)block[i] < ' ')
                return AS_UNKNOWN;
        if (text)
            memcpy(text + length, block, count + (end != NULL));
        if (end)
            return length + count;
        if (got < TEXT_BLOCK)
            break;
    }
    return AS_UNKNOWN;
}

void as_glibc_give(struct as_glibc *g, uint32_t node, enum as_shape shape)
{
    struct as_patterns *p = g->proof.patterns;
    if (p->shape[node] > AS_SHAPE_BEGINS)
        return;
    as_pattern_give(p, node, shape);
    p->of_node[node] = AS_PATTERN_NONE;
}

bool as_glibc_give_text(struct as_glibc *g, uint64_t address, enum as_shape shape, bool exactly)
{
    uint32_t node = as_proof_node(&g->proof, address);
    uint64_t length = node != AS_NO_NODE ? as_glibc_text(g, address, NULL) : AS_UNKNOWN;
    if (length == AS_UNKNOWN || (exactly && !as_proof_is_made_for(&g->proof, address, length + 1)))
        return false;
    as_glibc_give(g, node, shape);
    return true;
}

bool as_glibc_is_own(const struct as_glibc *g, uint64_t address)
{
    uint64_t start, end;
    if (address >= g->libc->start && address < g->libc->end)
        return true;
    for (unsigned i = 0; as_module_writable(g->modules, g->libc, i, &start, &end); i++)
        if (address >= start && address < end)
            return true;
    return false;
}

bool as_glibc_is_link_map(const struct as_glibc *g, uint64_t address)
{
    for (size_t i = 0; address != 0 && i < g->modules->list.count; i++)
        if (g->modules->list.items[i].link_map == address)
            return true;
    return false;
}
