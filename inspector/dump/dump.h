// SPDX-License-Identifier: MIT
// The dump file: writer and reader. The format is dump/format.h and docs/dump-format.md.
#pragma once

#include "base/error.h"
#include "dump/format.h"
#include "snapshot/snapshot.h"

// A dump file being written: under a temporary name beside the wanted one, mode 0600, until it is complete.
struct as_dump_writer {
    int fd; // chunk records may be written here from AS_DUMP_DATA_START on, before as_dump_finish
    int directory;
    char *name;      // the wanted name within the directory; NULL for a dump in memory
    char *temporary; // the temporary name
};

// `path` NULL: a dump in memory (memfd), which as_dump_open_fd can read after as_dump_finish.
bool as_dump_begin(struct as_dump_writer *w, const char *path, struct as_error *err);
// Writes all but the chunks, which are in the file already, syncs, and puts the file in place (an existing regular file is
// replaced; a symlink or anything else in the way is an error, AS_IO).
bool as_dump_finish(struct as_dump_writer *w, const struct as_snapshot *s, struct as_error *err);
// Removes what was written, if it was not finished; closes all. Always call it.
void as_dump_close(struct as_dump_writer *w);

// A dump file mapped for reading. Every offset and count has been checked against the file: indexes between records
// (heap to pages, arena to heaps, ...) are within bounds too, so that a view of a hostile file is as safe as one of our own.
struct as_dump_file {
    struct as_view view;
    void *map;
    uint64_t map_size;
};
bool as_dump_open(struct as_dump_file *f, const char *path, struct as_error *err);
bool as_dump_open_fd(struct as_dump_file *f, int fd, const char *name, struct as_error *err);
void as_dump_file_close(struct as_dump_file *f);
