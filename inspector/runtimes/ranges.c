// SPDX-License-Identifier: MIT
#include "runtimes/ranges.h"

#include "base/sort.h"
#include "runtimes/regions.h"

bool as_ranges_add(struct as_ranges *r, uint64_t start, uint64_t length, struct as_error *err)
{
    return as_vec_push(&r->starts, err, start) &&
           as_vec_push(&r->ends, err, length < UINT64_MAX - start ? start + length : UINT64_MAX);
}

// The n-th start belongs to the n-th end where ranges do not overlap. Where they may, there is a gap behind the n-th
// end if the next start is beyond it.
bool as_ranges_settle(struct as_ranges *r, struct as_target *t, struct as_store *s, uint32_t runtime, bool unite,
                      uint64_t *bytes, struct as_error *err)
{
    size_t first = s->regions.count, count = r->ends.count;
    const uint64_t *starts = r->starts.items, *ends = r->ends.items;
    bool ok = as_sort_u64(r->starts.items, count, err) && as_sort_u64(r->ends.items, count, err);
    for (size_t i = 0, next; i < count && ok; i = next) {
        for (next = i + 1; next < count; next++)
            if (unite ? starts[next] > ends[next - 1] : starts[next] != ends[next - 1])
                break;
        ok = as_regions_add(t, s, runtime, starts[i], ends[next - 1], bytes, err);
    }
    return ok && as_regions_sort(s, first, err);
}

void as_ranges_clear(struct as_ranges *r)
{
    r->starts.count = r->ends.count = 0;
}

void as_ranges_free(struct as_ranges *r)
{
    AS_FREE_VECS(r, starts, ends);
}
