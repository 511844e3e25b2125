// SPDX-License-Identifier: MIT
// zlib's streams.
#pragma once

#include "graph/recogniser.h"

// The candidate is the memory of a node.
void as_zlib_prove(struct as_proof *p, const struct as_claim *candidate);
