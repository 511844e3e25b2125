// SPDX-License-Identifier: MIT
#include "base/sort.h"
#include "base/vec.h"

#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, SMALL = 64 };

static void insertion_sort(uint64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

bool as_sort_u64(uint64_t *values, size_t count, struct as_error *err)
{
    if (count <= SMALL) {
        insertion_sort(values, count);
        return true;
    }
    AS_VEC(uint64_t) other = {0};
    if (!as_vec_reserve(&other, count, err))
        return false;
    uint64_t varying = 0; // bits in which any two values differ: a digit without any needs no pass
    for (size_t i = 1; i < count; i++)
        varying |= values[i] ^ values[0];

    uint64_t *from = values;
    uint64_t *to = other.items;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (((varying >> shift) & (DIGITS - 1)) == 0)
            continue;
        size_t place[DIGITS] = {0};
        for (size_t i = 0; i < count; i++)
            place[(from[i] >> shift) & (DIGITS - 1)]++;
        size_t sum = 0;
        for (size_t d = 0; d < DIGITS; d++) {
            size_t here = place[d];
            place[d] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            to[place[(from[i] >> shift) & (DIGITS - 1)]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != values)
        memcpy(values, from, count * sizeof *values);
    as_vec_free(&other);
    return true;
}

size_t as_lower_bound(const uint64_t *values, size_t count, uint64_t key)
{
    return AS_PARTITION_POINT(0, count, i, values[i] < key);
}
