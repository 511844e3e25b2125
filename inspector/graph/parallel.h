// SPDX-License-Identifier: MIT
// Work on all nodes that several threads share: each has nodes that follow each other.
#pragma once

#include <stdint.h>

enum { AS_MOST_PARTS = 4 };

struct as_part {
    uint32_t from, to; // nodes [from, to)
};

// Cuts the nodes into parts in the order of the nodes, one for each processor; few nodes are one part. Returns how many there are.
uint32_t as_parts_cut(uint32_t nodes, struct as_part parts[AS_MOST_PARTS]);
