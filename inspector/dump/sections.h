// SPDX-License-Identifier: MIT
// The sections of a dump, as one table that writer and reader share: where each stands in a view.
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

struct as_section_kind {
    char name[sizeof((struct as_dump_section *)NULL)->name +
              1];         // ends with a NUL, which a name of 16 bytes has not in a file
    uint16_t record_size; // bytes
    uint16_t first_size;  // of its record when it was new: no file has a smaller one
    uint16_t pointer;     // offset of the section's pointer in struct as_view
    uint16_t count;       // offset of its count there; AS_NO_COUNT: always one record
};

extern const struct as_section_kind as_section_kinds[AS_SECTION_COUNT];

// The records of a section in a view, and their number.
const void *as_section_records(const struct as_view *view, enum as_section_id id, uint64_t *count);
