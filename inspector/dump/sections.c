// SPDX-License-Identifier: MIT
#include "dump/sections.h"

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

// What other readers rely on; a compiler that pads differently must not pass.
#define AS_RECORD(name, size)                                                                                          \
    _Static_assert(sizeof(struct as_##name##_record) >= (size), "dump format");                                        \
    _Static_assert(sizeof(struct as_##name##_record) == 0
#define BYTES(record, field) +sizeof(((struct as_##record##_record *)NULL)->field)
#define AS_FIELD(record, field, ...) BYTES(record, field)
#define AS_ARRAY AS_FIELD
#define AS_PART AS_FIELD
#define AS_END(name) , "dump format");
#include "model/records.def"
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the records are written as they lie in memory");

enum {
#define AS_RECORD(name, size) FIRST_SIZE_##name = (size),
#include "model/records.def"
};

#define KIND(name_, record, count_)                                                                                    \
    [AS_SECTION_##name_] = {.name = #name_,                                                                            \
                            .record_size = sizeof(struct as_##record##_record),                                        \
                            .first_size = FIRST_SIZE_##record,                                                         \
                            .pointer = offsetof(struct as_view, name_),                                                \
                            .count = (count_),                                                                         \
                            .field_count = sizeof fields_of_##record / sizeof fields_of_##record[0],                   \
                            .fields = fields_of_##record},

const struct as_section_kind as_section_kinds[AS_SECTION_COUNT] = {
#define AS_ONE(name, record, ...) KIND(name, record, AS_NO_COUNT)
#define AS_WALKED(name, record, ...) KIND(name, record, offsetof(struct as_view, record##_count))
#define AS_MANY AS_WALKED
#define AS_PLAIN(name_, type, size, ...)                                                                               \
    [AS_SECTION_##name_] = {.name = #name_,                                                                            \
                            .record_size = sizeof(type),                                                               \
                            .first_size = sizeof(type),                                                                \
                            .pointer = offsetof(struct as_view, name_),                                                \
                            .count = offsetof(struct as_view, size)},
#include "model/sections.def"
};

const void *as_section_records(const struct as_view *view, enum as_section_id id, uint64_t *count)
{
    const struct as_section_kind *kind = &as_section_kinds[id];
    const void *records;
    *count = 1;
    memcpy(&records, (const char *)view + kind->pointer, sizeof records);
    if (kind->count != AS_NO_COUNT)
        memcpy(count, (const char *)view + kind->count, sizeof *count);
    return records;
}

uint64_t as_field_value(const struct as_field *field, const void *record)
{
    uint64_t value = 0; // little-endian: the bytes that the field does not have are the upper ones
    memcpy(&value, (const char *)record + field->offset, field->size <= sizeof value ? field->size : sizeof value);
    return value;
}
