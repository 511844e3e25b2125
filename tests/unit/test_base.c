// SPDX-License-Identifier: MIT
// Vectors, strings, amounts and the sort: what everything else stands on.
#include "base/amount.h"
#include "base/sort.h"
#include "base/vec.h"
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void test_vectors(void)
{
    AS_VEC(uint64_t) numbers = {0};
    struct as_error err;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t *place = as_vec_add(&numbers, &err);
        CHECK(place && *place == 0); // new room is zeroed
        *place = i;
    }
    for (uint64_t i = 0; i < numbers.count; i++)
        CHECK(numbers.items[i] == i);
    size_t capacity = numbers.capacity;
    CHECK(!as_vec_reserve(&numbers, SIZE_MAX, &err) && err.code == AS_NO_MEMORY);
    CHECK(!as_vec_reserve(&numbers, SIZE_MAX / sizeof(uint64_t), &err));
    CHECK(numbers.capacity == capacity && numbers.items[99999] == 99999);
    as_vec_free(&numbers);
    CHECK(!numbers.items && numbers.count == 0);
}

static void test_strings(void)
{
    struct as_strings strings = {0};
    CHECK(as_strings_add(&strings, "", 10) == 0);
    uint32_t first = as_strings_add(&strings, "first", 100);
    uint32_t cut = as_strings_add(&strings, "cut off", 3);
    CHECK(first != 0 && cut != 0);
    CHECK(strcmp(as_strings_at(&strings, first), "first") == 0);
    CHECK(strcmp(as_strings_at(&strings, cut), "cut") == 0);
    CHECK(strcmp(as_strings_at(&strings, 0), "") == 0);
    CHECK(strcmp(as_strings_at(&strings, 1000000), "") == 0);
    as_vec_free(&strings);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_sort(size_t count, uint64_t mask)
{
    uint64_t state = 0x9E3779B97F4A7C15u + count;
    uint64_t *ours = malloc((count + 1) * sizeof *ours);
    uint64_t *theirs = malloc((count + 1) * sizeof *theirs);
    CHECK(ours && theirs);
    for (size_t i = 0; i < count; i++)
        ours[i] = theirs[i] = next(&state) & mask;
    struct as_error err;
    CHECK(as_sort_u64(ours, count, &err));
    qsort(theirs, count, sizeof *theirs, compare);
    CHECK(memcmp(ours, theirs, count * sizeof *ours) == 0);
    for (int i = 0; i < 100; i++) {
        uint64_t key = next(&state) & mask;
        size_t at = as_lower_bound(ours, count, key);
        CHECK(at == count || ours[at] >= key);
        CHECK(at == 0 || ours[at - 1] < key);
    }
    free(ours);
    free(theirs);
}

// That we may have no more files open is no bug of ours, and says nothing of the target: the error says what to do.
static void test_no_more_files(void)
{
    const int codes[] = {EMFILE, ENFILE};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct as_error err;
        errno = codes[i];
        CHECK(!as_fail_errno(&err, AS_INTERNAL, "opening"));
        CHECK(err.code == AS_NO_MEMORY && strstr(err.text, "opening: ") && strstr(err.text, "ulimit -n"));
    }
    struct as_error err;
    errno = EIO;
    CHECK(!as_fail_errno(&err, AS_INTERNAL, "opening"));
    CHECK(err.code == AS_INTERNAL && !strstr(err.text, "ulimit"));
}

static void test_amounts(void)
{
    static const struct as_unit seconds[] = {{"us", 1000}, {"s", 1000000000}, {"", 0}};
    static const struct {
        const char *text;
        const struct as_unit *units;
        uint64_t value;
    } amounts[] = {
        {"0.000000001s", seconds, 1},
        {"600.000000000s", seconds, UINT64_C(600000000000)},
        {"0.1000000009s", seconds, 100000000},
        {"0.5us", seconds, 500},
        {"0.50000K", as_size_units, 512},
        {"1.999999999T", as_size_units, UINT64_C(2199023254452)},
        {"16777216T", as_size_units, 0}, // too large
        {"0.5", seconds, 0},
        {".5s", seconds, 0},
        {"5s ", seconds, 0},
    };
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        uint64_t value = 0;
        bool known = as_amount_read(amounts[i].text, strlen(amounts[i].text), amounts[i].units, &value);
        CHECK(known == (amounts[i].value != 0) && (!known || value == amounts[i].value));
    }
}

int main(void)
{
    test_amounts();
    test_vectors();
    test_no_more_files();
    test_strings();
    const size_t counts[] = {0, 1, 2, 63, 64, 65, 1000, 100000};
    const uint64_t masks[] = {UINT64_MAX, 0xff, 0x7ffffffffff0, 0};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof masks / sizeof *masks; k++)
            test_sort(counts[i], masks[k]);
    return 0;
}
