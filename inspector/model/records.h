// SPDX-License-Identifier: MIT
// The records that a snapshot makes, and that a dump file holds, as C has them: struct as_heap_record, ... Each stage reads the
// records that the stage before it wrote, in memory or from a file. What each field means: model/records.def.
#pragma once

#include "model/enums.h"
#include "model/rows.h"

#include <stdint.h>

#define AS_C_char char
#define AS_C_u8 uint8_t
#define AS_C_u16 uint16_t
#define AS_C_u32 uint32_t
#define AS_C_u64 uint64_t
#define AS_RECORD(name, ...) struct as_##name##_record {
#define AS_FIELD(record, field, type, ...) AS_C_##type field;
#define AS_ARRAY(record, field, type, count, ...) AS_C_##type field[count];
#define AS_PART(record, field, part, ...) struct as_##part field;
#define AS_END(name)                                                                                                   \
    }                                                                                                                  \
    ;
#define AS_STRUCT(name) struct as_##name {
#define AS_STRUCT_FIELD(name, field, ...) uint64_t field;
#define AS_STRUCT_PART(name, field, part, ...) struct as_##part field;
#define AS_STRUCT_END(name)                                                                                            \
    }                                                                                                                  \
    ;
#include "model/records.def"
