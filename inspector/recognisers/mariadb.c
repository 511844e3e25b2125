// SPDX-License-Identifier: MIT
// What MariaDB's my_malloc returns.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

void as_mariadb_prove(struct as_proof *p, const struct as_claim *candidate)
{
    if (!p->java && p->patterns->shape[candidate->node] <= AS_SHAPE_BEGINS)
        as_proof_give(p, candidate->node, AS_SHAPE_MARIADB);
}
