// SPDX-License-Identifier: MIT
// What HotSpot's arenas have given back: chunks that a pool keeps for the next arena, and whose old words lead anywhere.
#pragma once

#include "graph/recogniser.h"

// Names the pools and what is in them.
bool as_hotspot_chunks_find(const struct as_recogniser_input *in);
