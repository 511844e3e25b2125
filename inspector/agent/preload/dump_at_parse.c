// SPDX-License-Identifier: MIT
// Reads $ARENASCOPE_DUMP_AT: the conditions of `arenascope watch --dump-at`, and its limits.
#include "agent/preload/dump_at.h"
#include "model/enums.h"
#include "target/procfs.h"

#include <stdint.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define DEFAULT_EVERY (10 * SECOND)
#define CONDITIONS "peak, +64M, rss=1G, allocated=1G"
#define LEAST_MOST (UINT64_C(1) << 20)
enum { DEFAULT_KEEP = 8, MOST_KEEP = 10000 };

// A number that one of these letters may multiply: 64M.
static bool read_amount(const char *text, size_t length, const char *letters, const uint64_t *factors, uint64_t *out)
{
    const char *at = text;
    uint64_t number = as_parse_decimal(&at, text + length);
    const char *letter = at + 1 == text + length ? strchr(letters, *at) : NULL;
    if (at == text || number == 0 || (at < text + length && !letter))
        return false;
    return !__builtin_mul_overflow(number, letter ? factors[letter - letters] : 1, out);
}

static bool read_size(const char *text, size_t length, uint64_t *out)
{
    static const uint64_t factors[] = {1 << 10, 1 << 20, 1 << 30};
    return read_amount(text, length, "KMG", factors, out);
}

// In nanoseconds; of a number alone, seconds.
static bool read_time(const char *text, size_t length, uint64_t *out)
{
    static const uint64_t factors[] = {1, 60, 3600, 86400};
    return read_amount(text, length, "smhd", factors, out) && !__builtin_mul_overflow(*out, SECOND, out);
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
        return read_size(value, left, &n) && add_condition(wish, AS_DUMP_GROWTH, n);
    if (begins_with_word(text, length, "rss=", &value, &left))
        return read_size(value, left, &n) && add_condition(wish, AS_DUMP_RSS, n);
    if (begins_with_word(text, length, "allocated=", &value, &left))
        return read_size(value, left, &n) && add_condition(wish, AS_DUMP_ALLOCATED, n);
    if (begins_with_word(text, length, "every=", &value, &left))
        return read_time(value, left, &wish->every);
    if (begins_with_word(text, length, "keep=", &value, &left))
        return read_amount(value, left, "", NULL, &wish->keep) && wish->keep <= MOST_KEEP;
    if (begins_with_word(text, length, "dumps-size=", &value, &left))
        return read_size(value, left, &wish->most) && wish->most >= LEAST_MOST;
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
