// SPDX-License-Identifier: MIT
#include "dump/sections.h"

#include <string.h>

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
                            .count = (count_)},

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
