// SPDX-License-Identifier: MIT
#include "target/target.h"

void as_target_close(struct as_target *t)
{
    if (!t)
        return;
    as_target_resume(t);
    AS_FREE_VECS(&t->residency, runs, fetched);
    as_vec_free(&t->in_place.ranges);
    t->ops->close(t);
}
