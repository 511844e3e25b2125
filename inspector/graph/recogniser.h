// SPDX-License-Identifier: MIT
// What finds the structures of a well-known library, and gives their chunks shapes: one interface for all of them. Who opens a graph
// hands over the table of those that it wants.
#pragma once

#include "graph/edges.h"
#include "graph/patterns.h"
#include "graph/roots.h"
#include "graph/tls.h"
#include "graph/vtables.h"

// What a recogniser sees: a graph whose edges are settled, of a target that stands still.
struct as_recogniser_input {
    struct as_patterns *patterns; // has the shapes
    const struct as_edges *edges;
    const struct as_roots *roots;
    const struct as_modules *modules;
    const struct as_tls *tls;
    struct as_vtables *vtables;
    struct as_target *target;
    struct as_error *err; // of what `find` fails with
};

// While the candidates of one graph are proven (candidates.h).
struct as_proof {
    struct as_patterns *patterns;
    struct as_target *target;
    uint64_t room; // bytes that may still be read
    bool java;     // HotSpot is there, whose arenas' chunks begin as MariaDB's blocks do
};
#define AS_PROOF_BYTES (UINT64_C(64) << 20) // that are read at most for tables of hashes, and for names

struct as_recogniser {
    const char *name; // NULL: the table ends
    uint32_t kinds;   // of the candidates that `prove` is asked about: a bit for each as_claim_kind
    void (*prove)(struct as_proof *p, const struct as_claim *candidate);
    // Finds what was not noted as a candidate, once all of these have been proven. What there is no memory for has no shape. False:
    // AS_NO_MEMORY, without which nothing else is right either. NULL: there is no more.
    bool (*find)(const struct as_recogniser_input *in);
};

// Asks all of a table. False: AS_NO_MEMORY.
bool as_recognise(const struct as_recogniser *table, const struct as_recogniser_input *in);

// Has the target mapped a file whose path contains `name`, as in "/libcrypto.so"?
bool as_proof_has_library(const struct as_target *t, const char *name);
