// SPDX-License-Identifier: MIT
// glib's hash tables.
#pragma once

#include "graph/recogniser.h"

// A word leads to the keys.
void as_glib_prove(struct as_proof *p, const struct as_claim *candidate);
