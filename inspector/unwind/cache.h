// SPDX-License-Identifier: MIT
// Tables of modules that have a build-id, kept as files: made once, then mapped read-only by every process of the user.
#pragma once

#include "unwind/table.h"

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
