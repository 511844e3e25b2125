// SPDX-License-Identifier: MIT
// The fields of the records of each section, and what a reader relies on of their values.
#pragma once

#include "base/error.h"
#include "dump/sections.h"
#include "model/view.h"

// What a value of a field must be; `limit`: a section, or the greatest value.
enum as_field_rule {
    AS_FIELD_NUMBER,        // any
    AS_FIELD_PLAIN,         // any; 0 where a file does not have it
    AS_FIELD_INDEX,         // of a record in the section
    AS_FIELD_INDEX_OR_NONE, // likewise, or UINT32_MAX
    AS_FIELD_INDEX_PLUS_1,  // likewise, or 0
    AS_FIELD_RANGE,         // from `lowest` to `limit`
};
struct as_field {
    const char *name;
    uint16_t offset;
    uint16_t size; // bytes
    enum as_field_rule rule;
    uint32_t lowest, limit;
};

// The fields of one section's records; none of a section of bytes or words.
struct as_fields {
    const struct as_field *items;
    uint16_t count;
};

extern const struct as_fields as_section_fields[AS_SECTION_COUNT];

// The offset behind a field.
static inline uint32_t as_field_end(const struct as_field *field)
{
    return (uint32_t)field->offset + field->size;
}
// A field's value in a record.
uint64_t as_field_value(const struct as_field *field, const void *record);

// True when every index that one record holds of another is within bounds, ranges of pages, heaps and chunks do not
// overlap (so that work on a view is bounded by its file's size) and every enumerator is one that this major version has.
// AS_BAD_INPUT names the first record that lies; `name` is the file's.
bool as_dump_check(const struct as_view *v, const char *name, struct as_error *err);
