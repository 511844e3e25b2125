// SPDX-License-Identifier: MIT
// What HotSpot's arenas have given back: chunks that a pool keeps for the next arena, and whose old words lead anywhere.
#pragma once

#include "graph/candidate_check.h"
#include "graph/roots.h"

// Names the pools and what is in them. To be called while the target stands still.
void as_hotspot_chunks_prove(struct as_patterns *patterns, const struct as_roots *r, struct as_target *t);
