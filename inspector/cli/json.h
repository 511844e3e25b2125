// SPDX-License-Identifier: MIT
// A small streaming JSON writer: members come out as they are written, indented by two spaces, in the order given.
// `key` is NULL inside an array.
#pragma once

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
// 64-bit fields of a record as numbers, in the order of the table; a field's key is its name in the format (dump/format.h).
struct as_json_field {
    const char *key;
    size_t offset;
};
#define AS_JSON_FIELD(record, field)                                                                                   \
    {                                                                                                                  \
#field, offsetof(struct record, field)                                                                         \
    }
void as_json_numbers(struct as_json *j, const void *record, const struct as_json_field *fields, size_t count);
// "0x…"; AS_UNKNOWN gives null.
void as_json_address(struct as_json *j, const char *key, uint64_t address);
// Nanoseconds as milliseconds with three decimals; AS_UNKNOWN gives null.
void as_json_milliseconds(struct as_json *j, const char *key, uint64_t nanoseconds);
// Nanoseconds since the epoch as "2026-11-20T09:32:59.123Z".
void as_json_time(struct as_json *j, const char *key, uint64_t nanoseconds);
void as_json_bool(struct as_json *j, const char *key, bool value);
void as_json_null(struct as_json *j, const char *key);
