// SPDX-License-Identifier: MIT
// Where a module's frame information is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AS_UNWIND_ID = 32 };

// What a table is made from: a readable segment of a module, in memory or in a file. Its contents are not trusted.
struct as_unwind_image {
    const uint8_t *bytes;
    size_t size;
    uint64_t address; // of bytes[0], as the module counts (without its load bias)
    uint64_t header;  // of .eh_frame_hdr, likewise
    uint64_t header_size;
    uint64_t text; // the first of the module's code; rows count from here
    uint64_t text_size;
    uint16_t machine; // EM_X86_64 or EM_AARCH64
    uint8_t id[AS_UNWIND_ID];
    uint16_t id_size; // the build-id; 0: it has none, or one that is too long
};
