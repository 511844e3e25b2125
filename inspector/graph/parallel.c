// SPDX-License-Identifier: MIT
#include "graph/parallel.h"

#include <unistd.h>

enum { FEW = 1 << 14 }; // nodes: to start a thread takes longer than they do

uint32_t as_parts_cut(uint32_t nodes, struct as_part parts[AS_MOST_PARTS])
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = processors < 1 || nodes < FEW      ? 1
                     : processors < (long)AS_MOST_PARTS ? (uint32_t)processors
                                                        : AS_MOST_PARTS;
    for (uint32_t i = 0; i < count; i++) {
        parts[i].from = (uint32_t)((uint64_t)nodes * i / count);
        parts[i].to = (uint32_t)((uint64_t)nodes * (i + 1) / count);
    }
    return count;
}
