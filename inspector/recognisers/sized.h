// SPDX-License-Identifier: MIT
// Memory of no library that is known: it leads to its own end, or its size stands beside the pointer to it.
#pragma once

#include "graph/recogniser.h"

void as_sized_prove(struct as_proof *p, const struct as_claim *candidate);
