// SPDX-License-Identifier: MIT
#include "base/amount.h"

#include <string.h>

const struct as_unit as_size_units[] = {
    {"", 1}, {"K", UINT64_C(1) << 10}, {"M", UINT64_C(1) << 20}, {"G", UINT64_C(1) << 30}, {"T", UINT64_C(1) << 40},
    {"", 0}};

#define MOST_SCALE UINT64_C(1000000000) // digits behind nine of a fraction are below a nanosecond

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

bool as_amount_read(const char *text, size_t length, const struct as_unit *units, uint64_t *value)
{
    const char *end = text + length, *at = text;
    uint64_t whole = 0, part = 0, scale = 1;
    for (; is_digit(at, end); at++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
            return false;
    if (at == text)
        return false;
    if (at < end && *at == '.')
        for (at++; is_digit(at, end); at++)
            if (scale < MOST_SCALE) {
                part = part * 10 + (uint64_t)(*at - '0');
                scale *= 10;
            }
    size_t left = (size_t)(end - at);
    for (; units->factor; units++)
        if (strlen(units->name) == left && memcmp(units->name, at, left) == 0) {
            // part * factor / scale, without an overflow
            uint64_t rest = part * (units->factor / scale) + part * (units->factor % scale) / scale;
            return !__builtin_mul_overflow(whole, units->factor, value) && !__builtin_add_overflow(*value, rest, value);
        }
    return false;
}
