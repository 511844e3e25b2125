// SPDX-License-Identifier: MIT
// The hash tables (LHASH) and the stacks (STACK_OF) of OpenSSL's libcrypto, 1.1.1 and later. A program that has not mapped the library
// pays nothing.
//
// Numbers (BIGNUM) have no name: {pointer, length, room, sign, flags} is what many a vector of other libraries has.
#pragma once

#include "graph/edges.h"
#include "graph/patterns.h"

// Finds them, and gives the chunks a shape. To be called once the edges are settled, while the target stands still. What there is no memory
// for has no shape.
void as_openssl_prove(struct as_patterns *patterns, const struct as_edges *e, struct as_target *t);
