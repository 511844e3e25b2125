// SPDX-License-Identifier: MIT
// The dump file: writer and reader. The format is dump/format.h and docs/dump-format.md.
#pragma once

#include "base/error.h"
#include "base/output.h"
#include "dump/format.h"
#include "model/store.h"
#include "model/view.h"

// A dump file being written: private and nameless, or under a temporary name, until it is complete.
struct as_dump_writer {
    struct as_output file; // chunk records may be written to file.fd from AS_DUMP_DATA_START on, before as_dump_finish
};

// `path` NULL: a dump in memory (memfd), which as_dump_open_fd can read after as_dump_finish.
bool as_dump_begin(struct as_dump_writer *w, const char *path, struct as_error *err);
// As as_dump_begin, into an open file, which stays the caller's: as_output_begin_fd.
bool as_dump_begin_fd(struct as_dump_writer *w, int fd, struct as_error *err);
// Writes all but the chunks, which are in the file already, syncs, and puts the file in place (an existing regular file is
// replaced; a symlink or anything else in the way is an error, AS_IO). file.fd stays open for as_dump_open_fd.
bool as_dump_finish(struct as_dump_writer *w, const struct as_store *s, struct as_error *err);
// Removes what was written, if it was not finished; closes all. Always call it.
void as_dump_close(struct as_dump_writer *w);

// A dump file that was read. Every offset and count has been checked against the file: indexes between records
// (heap to pages, arena to heaps, ...) are within bounds too, so that a view of a hostile file is as safe as one of our own.
struct as_dump_file {
    struct as_view view;
    void *records; // all sections but the chunks: our own copy, so that what was checked cannot change any more
    uint64_t records_size;
    void *chunk_map; // the chunks, mapped: they may be gigabytes, and no value among them is an index
    uint64_t chunk_map_size;
};
// Reads and checks a dump. `path` may be a symlink, but not a pipe or a device. AS_NO_TARGET: no such file; AS_DENIED;
// AS_BAD_INPUT: not a dump, truncated, made by a newer major version, or a file that lies about itself.
bool as_dump_open(struct as_dump_file *f, const char *path, struct as_error *err);
// As as_dump_open, for an open file, which stays the caller's; `name` is for error texts.
bool as_dump_open_fd(struct as_dump_file *f, int fd, const char *name, struct as_error *err);
void as_dump_file_close(struct as_dump_file *f);
