// SPDX-License-Identifier: MIT
// What no owner retains alone: which owners lead to how much of it.
#pragma once

#include "graph/dominators.h"

enum { AS_MOST_LEADING = 64 };

struct as_leading {
    uint32_t owner; // index in the owners' list
    uint64_t bytes; // that are free only if this owner goes, too
};

struct as_several {
    uint64_t bytes;  // that have several owners
    uint32_t owners; // how many lead to any of these
    uint32_t asked;  // of these: those that lead to most directly. The others may lead to more by way of these
    struct as_leading leading[AS_MOST_LEADING]; // of those asked, those that lead to most, the most bytes first
    uint32_t count;                             // in `leading`
};

// Finds them, of a tree that has been added up. Nothing to free. False: AS_NO_MEMORY.
bool as_several_find(struct as_several *s, const struct as_dominators *d, struct as_error *err);
