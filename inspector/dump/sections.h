// SPDX-License-Identifier: MIT
// The sections of a dump, as one table that writer and reader share: where each stands in a view, and what its records have.
#pragma once

#include "dump/format.h"
#include "model/view.h"

#include <stdbool.h>
#include <stddef.h>

enum as_section_id {
#define AS_ONE(name, ...) AS_SECTION_##name,
#define AS_WALKED AS_ONE
#define AS_MANY AS_ONE
#define AS_PLAIN AS_ONE
#include "model/sections.def"
    AS_SECTION_COUNT,
};

enum { AS_SECTION_ALIGN = 64, AS_NO_COUNT = 0xffff };

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

struct as_section_kind {
    char name[sizeof((struct as_dump_section *)NULL)->name +
              1];         // with its NUL, which a name of 16 bytes has not in a file
    uint16_t record_size; // bytes
    uint16_t first_size;  // of its record when it was new: no file has a smaller one
    uint16_t pointer;     // offset of the section's pointer in struct as_view
    uint16_t count;       // offset of its count there; AS_NO_COUNT: always one record
    uint16_t field_count;
    const struct as_field *fields;
};

extern const struct as_section_kind as_section_kinds[AS_SECTION_COUNT];

// The records of a section in a view, and their number.
const void *as_section_records(const struct as_view *view, enum as_section_id id, uint64_t *count);
// The offset behind a field.
static inline uint32_t as_field_end(const struct as_field *field)
{
    return (uint32_t)field->offset + field->size;
}
// A field's value in a record.
uint64_t as_field_value(const struct as_field *field, const void *record);
