// SPDX-License-Identifier: MIT
// A file that appears whole under its name, or not at all. It is private (mode 0600), no symlink is followed, and what
// stood under the name before stays there until the new file is complete and on disk.
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

// What writes files into a program's surroundings without having been asked for each of them leaves one part in so many of the file system
// free.
enum { AS_OUTPUT_PART_FREE = 20 };

struct as_output {
    int fd;
    const char *path;             // as it was given, for error texts: it must live as long as this
    int directory;                // of the wanted name; -1 for a file in memory
    char name[NAME_MAX + 1];      // the wanted name within the directory
    char temporary[NAME_MAX + 1]; // a name that the unfinished file has on disk; "" while it has none
};

// Nothing open. as_output_close accepts it.
#define AS_OUTPUT_CLOSED                                                                                               \
    {                                                                                                                  \
        .fd = -1, .directory = -1                                                                                      \
    }

// Starts a file that will be called `path`. NULL: a file in memory (memfd), which never gets a name. AS_IO when the
// directory is not there, is not writable, or something other than a regular file stands at `path`.
bool as_output_begin(struct as_output *o, const char *path, struct as_error *err);

// Writes into the open file `fd`, which stays the caller's and is emptied: a regular file or a memfd, open for reading and writing without
// O_APPEND. AS_USAGE for another.
bool as_output_begin_fd(struct as_output *o, int fd, struct as_error *err);

// As as_output_begin, for a name without slashes in the open directory `directory`, which stays the caller's.
bool as_output_begin_at(struct as_output *o, int directory, const char *name, struct as_error *err);

// Writes all of `size` bytes at `offset` of the file, which need not be in order. AS_IO: the disk is full, or worse.
bool as_output_write(struct as_output *o, const void *data, size_t size, uint64_t offset, struct as_error *err);

// Syncs the file and puts it in place of an older regular file of that name. Leaves `fd` open for reading.
bool as_output_finish(struct as_output *o, struct as_error *err);

// Writes all of a file that is finished to `to`, which may be a pipe. AS_IO.
bool as_output_copy(struct as_output *o, int to, struct as_error *err);

// Removes what was not finished, and closes all. May be called twice.
void as_output_close(struct as_output *o);

// The part of as_output_close that a signal handler may call: takes the unfinished file's name from the disk.
void as_output_abandon(const struct as_output *o);
