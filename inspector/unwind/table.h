// SPDX-License-Identifier: MIT
// The rules of a module's code as a sorted table: made from .eh_frame once, or read from the cache (cache.h), where the table lies
// as it does in memory. Four bytes a row: modules have few different rules, so that a row only names one; and rows that follow each other
// are a block, from whose place theirs count. A search inspects the blocks' places, which are few, and at the rows of one block: so little
// of the table has to be in memory.
#pragma once

#include "unwind/image.h"

enum { AS_UNWIND_VERSION = 2, AS_UNWIND_BLOCK_ROWS = 256 };

// Offsets are from image.text. A block's first row is at its offset.
struct as_unwind_block {
    uint32_t offset;
    uint32_t row;
};
struct as_unwind_row {
    uint16_t place; // from the block's offset
    uint16_t rule;
};

// The beginning of a table, in memory and in a file. Behind it: uint64_t rules[], struct as_unwind_block blocks[], struct
// as_unwind_row rows[].
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
    uint64_t blocks;
    uint64_t lost;     // rows with the rule "none"
    uint64_t checksum; // of what stands behind
};

struct as_unwind_table {
    const struct as_unwind_head *head; // NULL: no table
    const uint64_t *rules;
    const struct as_unwind_block *blocks; // ascending
    const struct as_unwind_row *rows;     // ascending within a block
    size_t bytes;                         // of the whole memory, from head on
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

// Tables of modules that have a build-id, kept as files: made once, then mapped read-only by every process of the user.

// The user's directory for them: $XDG_CACHE_HOME/arenascope, else ~/.cache/arenascope; made where it is missing. False where there is
// none, where it is another user's or others may write into it, and in a setuid program. Reads the environment.
bool as_unwind_cache_directory(char *path, size_t size);

// A number that says which seccomp filters the calling thread is under: with a further one it is another; 0: none is
// known (there is none, or /proc cannot be read). What is called for it is what the loader calls for a library: open,
// read, close.
uint64_t as_unwind_cache_filters(void);

// The module's table: the file's in `directory` (NULL: no cache), else made from the image and written there. `cached` says whether
// a file had it. False: there is no table.
bool as_unwind_cache_table(struct as_unwind_table *table, const struct as_unwind_image *image, const char *directory,
                           bool *cached);
