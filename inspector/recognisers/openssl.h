// SPDX-License-Identifier: MIT
// The hash tables (LHASH) and the stacks (STACK_OF) of OpenSSL's libcrypto, 1.1.1 and later. A program that has not mapped the library
// pays nothing.
//
// Numbers (BIGNUM) have no name: {pointer, length, room, sign, flags} is what many a vector of other libraries has.
#pragma once

#include "graph/recogniser.h"

// Finds them, and gives the chunks a shape.
bool as_openssl_find(const struct as_recogniser_input *in);
