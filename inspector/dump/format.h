// SPDX-License-Identifier: MIT
// The frame of a dump file: its header and its table of sections, whose records are model/records.h.
// docs/dump-format.md specifies both for other readers.
#pragma once

#include <stdint.h>

#define AS_DUMP_MAGIC "ARENASC\n" // 8 bytes; the newline shows a transfer in text mode
enum { AS_DUMP_MAJOR = 1, AS_DUMP_MINOR = 6, AS_DUMP_DATA_START = 4096 };

struct as_dump_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_size;  // bytes of this struct
    uint64_t file_size;    // bytes: a shorter file was truncated
    uint64_t table_offset; // of the section table
    uint32_t section_count;
    uint32_t section_size; // bytes of one entry of the table
};

struct as_dump_section {
    char name[16]; // NUL-padded
    uint64_t offset;
    uint64_t count;       // records
    uint32_t record_size; // bytes
    uint32_t reserved;
};

_Static_assert(sizeof(struct as_dump_header) == 40, "dump format");
_Static_assert(sizeof(struct as_dump_section) == 40, "dump format");
