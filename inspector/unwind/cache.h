// SPDX-License-Identifier: MIT
// Tables of modules that have a build-id, kept as files: made once, then mapped read-only by every process of the user.
#pragma once

#include "unwind/table.h"

// The user's directory for them: $XDG_CACHE_HOME/arenascope, else ~/.cache/arenascope; made where it is missing. False where there is
// none, where it is another user's or others may write into it, and in a setuid program. Reads the environment.
bool as_unwind_cache_directory(char *path, size_t size);

// Whether the calling thread is under a seccomp filter, which may end the process for what only a cache needs: then there is to be none. What is
// called is what the loader calls for a library (open, read, close). False where /proc cannot be read.
bool as_unwind_cache_is_forbidden(void);

// The module's table: the file's in `directory` (NULL: no cache), else made from the image and written there. `cached` says whether
// a file had it. False: there is no table.
bool as_unwind_cache_table(struct as_unwind_table *table, const struct as_unwind_image *image, const char *directory,
                           bool *cached);
