// SPDX-License-Identifier: MIT
#include "target/residency.h"
#include "target/target.h"

size_t as_residency_run_from(const struct as_target *t, uint64_t address)
{
    size_t low = 0;
    size_t count = t->residency.runs.count;
    while (count > 0) {
        size_t half = count / 2;
        if (t->residency.runs.items[low + half].end <= address) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}
