// SPDX-License-Identifier: MIT
// The library needs nothing but libc: logarithm and exponential function are computed here, to eight digits.
#include "recorder/recorder.h"

static double logarithm(double x)
{
    int exponent = 0;
    while (x < 0.75) {
        x *= 2;
        exponent--;
    }
    double t = (x - 1) / (x + 1); // at most 0.2
    double square = t * t;
    double sum = 0;
    for (int i = 15; i > 0; i -= 2)
        sum = sum * square + 1.0 / i;
    return 2 * t * sum + exponent * 0.69314718055994530942;
}

// 1 - exp(-x)
static double probability(double x)
{
    if (x > 40)
        return 1;
    int halvings = 0;
    for (; x > 0.25; halvings++)
        x /= 2;
    double term = x;
    double sum = 0;
    for (int i = 2; i < 16; i++) {
        sum += term;
        term *= -x / i;
    }
    for (; halvings > 0; halvings--) // 1 - (1 - s)^2
        sum = sum * (2 - sum);
    return sum;
}

int64_t as_recorder_distance(uint64_t *random, uint64_t mean)
{
    *random += UINT64_C(0x9e3779b97f4a7c15); // SplitMix64
    uint64_t z = *random;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    double uniform = ((double)(z >> 11) + 1) / 9007199254740992.0; // above 0, at most 1
    return (int64_t)(-logarithm(uniform) * (double)mean) + 1;
}

uint64_t as_recorder_weight(uint64_t size, uint64_t mean)
{
    return (uint64_t)(1024 / probability((double)size / (double)mean) + 0.5);
}
