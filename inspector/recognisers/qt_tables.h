// SPDX-License-Identifier: MIT
// The parts of qt.h: QHash and QMap.
#pragma once

#include "graph/edges.h"
#include "recognisers/proof.h"
#include "target/window.h"

enum { AS_QT_MOST_REFERENCES = 1 << 16 }; // less than addresses of programs at fixed places

struct as_qt {
    struct as_proof proof;
    const struct as_edges *edges;
    struct as_window window;
    uint64_t steps; // that are left
};

// May it be a count of references?
static inline bool as_qt_is_reference(uint64_t word)
{
    return (uint32_t)word - 1U < AS_QT_MOST_REFERENCES;
}

// Inspect a chunk whose memory has been read; give it and what belongs to it their shapes.
void as_qt5_match_tables(struct as_qt *q, const struct as_used_chunk *chunk);
void as_qt6_match_table(struct as_qt *q, const struct as_used_chunk *chunk);
