// SPDX-License-Identifier: MIT
// For readers alone: the agent, which writes dumps, does not carry these tables.
#include "dump/fields.h"

#include <string.h>

// The range of each enumeration, from what is listed.
#define AS_ENUM(name, prefix, lowest, ...) enum { as_##name##_lowest = (lowest), as_##name##_before = (lowest)-1,
#define AS_VALUE(name, ...) name##_in_order,
#define AS_END(name)                                                                                                   \
    as_##name##_behind                                                                                                 \
    }                                                                                                                  \
    ;
#include "model/enums.def"

#define KIND_NUMBER AS_FIELD_NUMBER, 0, 0
#define KIND_STRING AS_FIELD_PLAIN, 0, 0
#define KIND_OPEN_ENUM(name) AS_FIELD_PLAIN, 0, 0
#define KIND_BITS(name) AS_FIELD_PLAIN, 0, 0
#define KIND_INDEX(section) AS_FIELD_INDEX, 0, AS_SECTION_##section
#define KIND_INDEX_OR_NONE(section) AS_FIELD_INDEX_OR_NONE, 0, AS_SECTION_##section
#define KIND_INDEX_PLUS_1(section) AS_FIELD_INDEX_PLUS_1, 0, AS_SECTION_##section
#define KIND_ENUM(name) AS_FIELD_RANGE, as_##name##_lowest, as_##name##_behind - 1
#define KIND_BELOW(number) AS_FIELD_RANGE, 0, (number)-1

#define PLACE(record, field)                                                                                           \
#field, offsetof(struct as_##record##_record, field), sizeof(((struct as_##record##_record *)NULL)->field)
#define AS_RECORD(name, ...) static const struct as_field fields_of_##name[] = {
#define AS_FIELD(record, field, type, kind, ...) {PLACE(record, field), KIND_##kind},
#define AS_ARRAY(record, field, ...) {PLACE(record, field), AS_FIELD_PLAIN, 0, 0},
#define AS_PART(record, field, ...) {PLACE(record, field), AS_FIELD_NUMBER, 0, 0},
#define AS_END(name)                                                                                                   \
    }                                                                                                                  \
    ;
#include "model/records.def"

#define FIELDS(name, record)                                                                                           \
    [AS_SECTION_##name] = {fields_of_##record, sizeof fields_of_##record / sizeof fields_of_##record[0]},
const struct as_fields as_section_fields[AS_SECTION_COUNT] = {
#define AS_ONE(name, record, ...) FIELDS(name, record)
#define AS_WALKED(name, record, ...) FIELDS(name, record)
#define AS_MANY AS_WALKED
#define AS_PLAIN(...)
#include "model/sections.def"
};

uint64_t as_field_value(const struct as_field *field, const void *record)
{
    uint64_t value = 0; // little-endian: the bytes that the field does not have are the upper ones
    memcpy(&value, (const char *)record + field->offset, field->size <= sizeof value ? field->size : sizeof value);
    return value;
}
