// SPDX-License-Identifier: MIT
#include "target/target.h"

void as_target_close(struct as_target *t)
{
    if (!t)
        return;
    as_target_resume(t);
    as_vec_free(&t->residency.runs);
    as_vec_free(&t->residency.fetched);
    as_vec_free(&t->in_place.ranges);
    t->ops->close(t);
}
