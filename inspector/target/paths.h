// SPDX-License-Identifier: MIT
// Opening files by names that somebody else chose: a target, which may be hostile where we are root, or a core from anywhere.
// Opening alone can do harm: a device may rewind or start something, a FIFO waits for a writer, and what a symbolic link says is
// meant for whoever wrote it, in his own root directory.
#pragma once

#include <sys/stat.h>

// A handle (O_PATH, which opens nothing yet) of what `path` names to a process whose root directory is `root`: symbolic links
// and ".." never lead out of there. The kernel's own links in /proc, which lead anywhere, are not followed. -1 (errno): there
// is no such file.
int as_path_find(int root, const char *path);

// The same for kernels without openat2 (before 5.6), and where a filter forbids it: one component at a time.
int as_path_find_by_steps(int root, const char *path);

// Opens what a handle leads to for reading, if that is a regular file of a true file system: nothing else is ever opened. Never
// waits for a lease. `stat` gets what it is. -1 (errno): ESTALE, it is something else.
int as_path_open(int handle, struct stat *stat);

// Both at once.
int as_path_open_below(int root, const char *path);
