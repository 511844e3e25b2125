// SPDX-License-Identifier: MIT
// Reads $ARENASCOPE_TRIM.
#include "agent/policy.h"
#include "base/amount.h"

#include <stddef.h>
#include <string.h>

static const struct as_unit times[] = {{"ns", 1},          {"us", 1000},         {"ms", 1000000}, {"s", 1000000000},
                                       {"m", 60000000000}, {"h", 3600000000000}, {"", 0}};
static const struct as_unit numbers[] = {{"", 1}, {"%", 1}, {"", 0}};

enum unit_kind { TIME, SIZE, NUMBER };

static const struct as_unit *units_of(enum unit_kind kind)
{
    return kind == TIME ? times : kind == SIZE ? as_size_units : numbers;
}

#define FIELD(name) offsetof(struct arenascope_policy, name)
static const struct {
    char name[12];
    uint8_t units;    // unit_kind
    uint8_t field;    // offset of a uint64_t of the policy
    uint16_t divisor; // of the value: the policy has the pressure in microseconds
} words[] = {
    {"every", TIME, FIELD(every), 1},
    {"min", SIZE, FIELD(min_bytes), 1},
    {"percent", NUMBER, FIELD(min_percent), 1},
    {"pressure", TIME, FIELD(pressure), 1000},
    {"idle", TIME, FIELD(idle), 1},
    {"distance", TIME, FIELD(min_distance), 1},
    {"backoff", NUMBER, FIELD(back_off), 1},
    {"max-hold", TIME, FIELD(trim.max_hold), 1},
};

static bool read_word(const char *text, size_t length, struct arenascope_policy *out, struct as_error *err)
{
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    uint64_t value;
    if (name == 4 && memcmp(text, "deep", 4) == 0 && !equals) {
        out->trim.flags |= ARENASCOPE_DEEP;
        return true;
    }
    for (size_t i = 0; equals && i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].name) != name || memcmp(words[i].name, text, name) != 0)
            continue;
        if (!as_amount_read(equals + 1, length - name - 1, units_of(words[i].units), &value))
            return as_fail(err, AS_USAGE, "ARENASCOPE_TRIM: '%.*s' is not %s", (int)length, text,
                           words[i].units == TIME   ? "a time (5ms, 0.5s, 2m)"
                           : words[i].units == SIZE ? "a size (64M, 1.5G)"
                                                    : "a number");
        *(uint64_t *)(void *)((char *)out + words[i].field) = value / words[i].divisor;
        return true;
    }
    return as_fail(
        err, AS_USAGE,
        "ARENASCOPE_TRIM: '%.*s' is not one of every, min, percent, pressure, idle, distance, backoff, max-hold "
        "(each with =VALUE), and deep",
        (int)length, text);
}

bool as_policy_parse(const char *text, struct arenascope_policy *out, struct as_error *err)
{
    *out = (struct arenascope_policy){.size = sizeof *out, .trim.size = sizeof out->trim};
    if (strcmp(text, "1") == 0)
        text = "every=30s,min=32M,distance=30s,backoff=50,max-hold=5ms";
    while (*text) {
        size_t length = strcspn(text, ",");
        if (length > 0 && !read_word(text, length, out, err))
            return false;
        text += length + (text[length] == ',');
    }
    return true;
}
