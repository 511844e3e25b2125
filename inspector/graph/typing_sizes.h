// SPDX-License-Identifier: MIT
// The sizes of chunks, for their types: searched for one by one where few are asked for, and noted of all otherwise.
#pragma once

#include "graph/index.h"

struct as_typing_sizes {
    const struct as_index *index;
    uint32_t *units; // of each node: its size, in 16 bytes; NULL: few have been asked for so far
    uint32_t asked;  // so many
    bool failed;     // AS_NO_MEMORY
    struct as_error *err;
};

// A node's size, in 16 bytes; 0: as large as no number says, or no chunk.
uint32_t as_typing_units(struct as_typing_sizes *s, uint32_t node);
void as_typing_sizes_free(struct as_typing_sizes *s);
