// SPDX-License-Identifier: MIT
#include "malloc/heaps.h"

#include <string.h>

static size_t index_from(const as_span_vec *spans, uint64_t address)
{
    return AS_PARTITION_POINT(0, spans->count, i, spans->items[i].end <= address);
}

const struct as_span *as_span_from(const as_span_vec *spans, uint64_t address)
{
    size_t i = index_from(spans, address);
    return i < spans->count ? &spans->items[i] : NULL;
}

bool as_span_is_clear(const as_span_vec *spans, uint64_t start, uint64_t end)
{
    const struct as_span *next = as_span_from(spans, start);
    return start < end && (!next || next->start >= end);
}

bool as_span_add(as_span_vec *spans, uint64_t start, uint64_t end, struct as_error *err)
{
    if (!as_vec_reserve(spans, 1, err))
        return false;
    size_t i = index_from(spans, start);
    memmove(spans->items + i + 1, spans->items + i, (spans->count - i) * sizeof *spans->items);
    spans->items[i] = (struct as_span){start, end};
    spans->count++;
    return true;
}

void as_span_cut(as_span_vec *spans, uint64_t start, uint64_t end)
{
    size_t i = index_from(spans, start);
    if (i < spans->count && spans->items[i].start == start && end > start && end < spans->items[i].end)
        spans->items[i].end = end;
}
