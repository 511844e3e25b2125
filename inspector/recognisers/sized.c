// SPDX-License-Identifier: MIT
// Memory of no library that is known: it leads to its own end, or its size stands beside the pointer to it.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

void as_sized_prove(struct as_proof *p, const struct as_claim *candidate)
{
    if (candidate->kind == AS_CLAIM_END)
        as_proof_give(p, candidate->node, AS_SHAPE_END);
    else if (p->patterns->shape[candidate->node] == AS_SHAPE_NONE)
        as_proof_give(p, candidate->node, AS_SHAPE_SIZED);
}
