// SPDX-License-Identifier: MIT
// A small streaming JSON writer: members come out as they are written, indented by two spaces, in the order given.
// `key` is NULL inside an array.
#pragma once

#include "base/each.h"
#include "model/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct as_json {
    FILE *out;
    unsigned depth;
    bool empty; // nothing yet in the innermost object or array
};

void as_json_object(struct as_json *j, const char *key);
void as_json_object_end(struct as_json *j);
void as_json_array(struct as_json *j, const char *key);
void as_json_array_end(struct as_json *j);

// A string; NULL gives null. Bytes that are not UTF-8 become U+FFFD. At most `max` bytes, or up to the NUL.
void as_json_text(struct as_json *j, const char *key, const char *text, size_t max);
void as_json_string(struct as_json *j, const char *key, const char *text);
// An integer; AS_UNKNOWN gives null.
void as_json_number(struct as_json *j, const char *key, uint64_t number);
// "0x…"; AS_UNKNOWN gives null.
void as_json_address(struct as_json *j, const char *key, uint64_t address);
// Nanoseconds as milliseconds with three decimals; AS_UNKNOWN gives null.
void as_json_milliseconds(struct as_json *j, const char *key, uint64_t nanoseconds);
// A part of a whole, 0 to 1, with four decimals; less than 0 gives null.
void as_json_share(struct as_json *j, const char *key, double share);
// Nanoseconds since the epoch as "2026-11-20T09:32:59.123Z".
void as_json_time(struct as_json *j, const char *key, uint64_t nanoseconds);
void as_json_bool(struct as_json *j, const char *key, bool value);
void as_json_null(struct as_json *j, const char *key);
// An object {"count", "bytes"}.
void as_json_counts(struct as_json *j, const char *key, uint64_t count, uint64_t bytes);

// A document on standard output, which says its schema first. It ends as an object does.
struct as_json as_json_begin(const char *schema);
// Its members on a snapshot: the version, the time, the target, the mode.
void as_json_snapshot(struct as_json *j, const struct as_view *v);

// --- Fields of a record (a pointer), each under its own name ---

// As numbers; as addresses.
#define AS_JSON_NUMBERS(j, record, ...) AS_EACH(AS_JSON_NUMBER, j, record, __VA_ARGS__)
#define AS_JSON_ADDRESSES(j, record, ...) AS_EACH(AS_JSON_ADDRESS, j, record, __VA_ARGS__)
// An object of numbers.
#define AS_JSON_OBJECT(j, key, record, ...)                                                                            \
    do {                                                                                                               \
        as_json_object(j, key);                                                                                        \
        AS_JSON_NUMBERS(j, record, __VA_ARGS__);                                                                       \
        as_json_object_end(j);                                                                                         \
    } while (0)

#define AS_JSON_NUMBER(j, record, field) as_json_number(j, #field, (record)->field)
#define AS_JSON_ADDRESS(j, record, field) as_json_address(j, #field, (record)->field)
