// SPDX-License-Identifier: MIT
// The rules of a module's code as a sorted table: made from .eh_frame once, or read from the cache (cache.h), where the table lies
// as it does in memory. Six bytes a row: modules have few different rules, so that a row only names one.
#pragma once

#include "unwind/image.h"

enum { AS_UNWIND_VERSION = 1 };

// The beginning of a table, in memory and in a file. Behind it: uint64_t rules[rules], uint32_t offsets[rows], uint16_t of[rows].
struct as_unwind_head {
    char magic[8];
    uint32_t version;
    uint16_t machine;
    uint16_t id_size;
    uint8_t id[AS_UNWIND_ID];
    uint64_t text;
    uint64_t text_size;
    uint64_t source; // a checksum of .eh_frame_hdr: two modules that claim one build-id are told apart
    uint64_t rows;
    uint64_t rules;
    uint64_t lost;     // rows with the rule "none"
    uint64_t checksum; // of what stands behind
};

struct as_unwind_table {
    const struct as_unwind_head *head; // NULL: no table
    const uint64_t *rules;
    const uint32_t *offsets; // ascending, from image.text
    const uint16_t *of;      // the rule of each row
    uint32_t rows;
    size_t bytes; // of the whole memory, from head on
};

// False: there is no memory, or nothing in it that can be read. The work is bounded by the size of the segment.
bool as_unwind_table_make(struct as_unwind_table *table, const struct as_unwind_image *image);

// The table in these bytes; false unless it is whole, of this image, and as as_unwind_table_make leaves one.
bool as_unwind_table_read(struct as_unwind_table *table, const void *memory, size_t bytes,
                          const struct as_unwind_image *image);

// The checksum of a table of so many bytes.
uint64_t as_unwind_table_sum(const struct as_unwind_head *head, size_t bytes);

void as_unwind_table_free(struct as_unwind_table *table);

// The rule at an offset from image.text; AS_UNWIND_UNCOVERED where the table has none. Async-signal-safe.
uint64_t as_unwind_table_rule(const struct as_unwind_table *table, uint64_t offset);
