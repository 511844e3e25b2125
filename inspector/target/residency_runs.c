// SPDX-License-Identifier: MIT
#include "target/residency.h"
#include "target/target.h"

size_t as_residency_run_from(const struct as_target *t, uint64_t address)
{
    return AS_PARTITION_POINT(0, t->residency.runs.count, i, t->residency.runs.items[i].end <= address);
}
