// SPDX-License-Identifier: MIT
// PHP's strings and hash tables, where malloc has them.
#pragma once

#include "graph/recogniser.h"

// A table is proven by what was noted of it.
void as_php_prove(struct as_proof *p, const struct as_claim *candidate);
