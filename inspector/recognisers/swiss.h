// SPDX-License-Identifier: MIT
// The hash tables of Rust's standard library.
#pragma once

#include "graph/recogniser.h"

// A word leads to the control bytes in a node.
void as_swiss_prove(struct as_proof *p, const struct as_claim *candidate);
