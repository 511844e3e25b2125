// SPDX-License-Identifier: MIT
// The sources of a layout, asked about a file alone.
#pragma once

#include "libc/libc.h"

// Everything about a libc that its file alone tells; addresses are the file's own, `proven` and `started` stay false.
// `root` is the directory below which debug files are searched for ("" is our own). False, with AS_NO_MALLOC, when no
// allowed source finds a malloc in it.
bool as_libc_from_file(int fd, uint32_t allowed_sources, const char *root, struct as_libc *out, struct as_error *err);
