// SPDX-License-Identifier: MIT
#include "graph/recogniser.h"

#include <string.h>

bool as_proof_has_library(const struct as_target *t, const char *name)
{
    for (size_t i = 0; i < t->mappings.count; i++)
        if (strstr(as_strings_at(&t->strings, t->mappings.items[i].path), name))
            return true;
    return false;
}

static void prove(const struct as_recogniser *table, struct as_proof *p, const struct as_claim *candidate)
{
    for (const struct as_recogniser *r = table; r->name; r++)
        if (r->kinds >> candidate->kind & 1)
            r->prove(p, candidate);
}

static void prove_candidates(const struct as_recogniser *table, const struct as_recogniser_input *in)
{
    struct as_proof p = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES};
    p.java = as_proof_has_library(in->target, "/libjvm.so");
    const struct as_claims *c = &in->patterns->claims;
    for (int sized = 0; sized < 2; sized++) // which says least
        for (size_t i = 0; i < c->list.count; i++)
            if ((c->list.items[i].kind == AS_CLAIM_SIZED) == sized)
                prove(table, &p, &c->list.items[i]);
}

bool as_recognise(const struct as_recogniser *table, const struct as_recogniser_input *in)
{
    prove_candidates(table, in);
    for (const struct as_recogniser *r = table; r->name; r++)
        if (r->find && !r->find(in))
            return false;
    return true;
}
