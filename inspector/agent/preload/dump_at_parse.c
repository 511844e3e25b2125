// SPDX-License-Identifier: MIT
// Reads $ARENASCOPE_DUMP_AT: the conditions of `arenascope watch --dump-at`, and its limits.
#include "agent/preload/dump_at.h"
#include "base/amount.h"
#include "model/enums.h"

#include <stdint.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define DEFAULT_EVERY (10 * SECOND)
#define CONDITIONS "peak, +64M, rss=1G, allocated=1G"
#define LEAST_MOST (UINT64_C(1) << 20)
enum { DEFAULT_KEEP = 8, MOST_KEEP = 10000 };

static const struct as_unit numbers[] = {{"", 1}, {"", 0}};
static const struct as_unit sizes[] = {{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"", 0}};
static const struct as_unit times[] = {{"", SECOND},         {"s", SECOND},         {"m", 60 * SECOND},
                                       {"h", 3600 * SECOND}, {"d", 86400 * SECOND}, {"", 0}};

static bool read_amount(const char *text, size_t length, const struct as_unit *units, uint64_t *out)
{
    return as_amount_read(text, length, units, out) && *out != 0;
}

static bool begins_with_word(const char *text, size_t length, const char *word, const char **value, size_t *left)
{
    size_t size = strlen(word);
    if (length < size || memcmp(text, word, size) != 0)
        return false;
    *value = text + size;
    *left = length - size;
    return true;
}

static bool add_condition(struct as_dump_wish *wish, enum as_dump_when when, uint64_t amount)
{
    if (wish->count == AS_DUMP_CONDITIONS)
        return false;
    wish->conditions[wish->count++] =
        (struct as_dump_condition){.when = when, .amount = amount, .marks = {AS_UNKNOWN, AS_UNKNOWN}};
    return true;
}

static bool read_word(const char *text, size_t length, struct as_dump_wish *wish)
{
    const char *value;
    size_t left;
    uint64_t n;
    if (length == 4 && memcmp(text, "peak", 4) == 0)
        return add_condition(wish, AS_DUMP_PEAK, 0);
    if (begins_with_word(text, length, "+", &value, &left))
        return read_amount(value, left, sizes, &n) && add_condition(wish, AS_DUMP_GROWTH, n);
    if (begins_with_word(text, length, "rss=", &value, &left))
        return read_amount(value, left, sizes, &n) && add_condition(wish, AS_DUMP_RSS, n);
    if (begins_with_word(text, length, "allocated=", &value, &left))
        return read_amount(value, left, sizes, &n) && add_condition(wish, AS_DUMP_ALLOCATED, n);
    if (begins_with_word(text, length, "every=", &value, &left))
        return read_amount(value, left, times, &wish->every);
    if (begins_with_word(text, length, "keep=", &value, &left))
        return read_amount(value, left, numbers, &wish->keep) && wish->keep <= MOST_KEEP;
    if (begins_with_word(text, length, "dumps-size=", &value, &left))
        return read_amount(value, left, sizes, &wish->most) && wish->most >= LEAST_MOST;
    return false;
}

bool as_dump_words_read(const char *text, struct as_dump_wish *wish, struct as_error *err)
{
    wish->every = DEFAULT_EVERY;
    wish->keep = DEFAULT_KEEP;
    wish->most = UINT64_C(1) << 30;
    for (const char *at = text;;) {
        size_t length = strcspn(at, ",");
        if (!read_word(at, length, wish))
            return as_fail(err, AS_USAGE,
                           "ARENASCOPE_DUMP_AT: '%.*s' is not one of " CONDITIONS
                           " (eight of these at most), every=10s, keep=8, "
                           "dumps-size=1G",
                           length > 200 ? 200 : (int)length, at);
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    return wish->count > 0 || as_fail(err, AS_USAGE, "ARENASCOPE_DUMP_AT: '%.200s' has none of " CONDITIONS, text);
}
