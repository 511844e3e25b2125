// SPDX-License-Identifier: MIT
// Reading /proc without stdio and without malloc. Every name is relative to an open directory, so that a pid that is
// used again for another process cannot fool us. Internal to target/.
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef AS_VEC(pid_t) as_pid_vec;

// The name of a file of /proc, by value: as an argument it lasts as long as the call. The arguments are as for printf.
struct as_proc_name {
    char text[48];
};
struct as_proc_name __attribute__((format(printf, 1, 2))) as_proc_name(const char *format, ...);

// Reads a small file, at most size - 1 bytes of it, and ends it with a NUL. Returns the length, or -1 (errno).
ssize_t as_proc_read(int dir, const char *name, char *buffer, size_t size);

// What a stat file in /proc says (proc_pid_stat(5)).
struct as_proc_stat {
    char state;       // 'R', 'S', 'D', 'T', 't', 'Z', 'X', ...
    uint64_t flags;   // PF_* of the kernel
    uint64_t ticks;   // of processor time, in user mode and in the kernel (sysconf(_SC_CLK_TCK) of them are a second)
    uint64_t threads; // of the whole process, the dead ones that nobody has waited for included
};
enum { AS_PF_EXITING = 0x00000004, AS_PF_KTHREAD = 0x00200000 };

// Has a thread in this state ended (waited for or not)?
static inline bool as_proc_is_dead(char state)
{
    return state == 'Z' || state == 'X' || state == 'x';
}

// Parses a `stat` file: "stat" of the directory, or "task/TID/stat". False: it is gone, or not to be understood.
bool as_proc_stat(int dir, const char *name, struct as_proc_stat *out);

// The state letter of the process or thread with that number; '\0': it is gone.
char as_proc_state(pid_t id);

// The number after `key` ("TracerPid:") in a `status` file, decimal or, of a mask of signals, hexadecimal; AS_PROC_NONE when
// there is none. A line before it may be long: that of groups has up to 65,536 numbers.
#define AS_PROC_NONE UINT64_MAX
uint64_t as_proc_status(int dir, const char *name, const char *key);
uint64_t as_proc_status_mask(int dir, const char *name, const char *key);

// The tids in dir/task, in the kernel's order. False, with errno: ESRCH where the process has ended.
bool as_proc_threads(int dir, as_pid_vec *out);

// A file of /proc, line by line, however long it is, through one buffer.
struct as_lines {
    int fd;
    AS_VEC(char) buffer;
    size_t begin, end; // of what is read and not yet given out
    bool passing;      // the rest of a line whose beginning was given out
    int error;         // errno of a read that failed; 0: the file was read to its end
};
// False with errno: it cannot be opened; or AS_NO_MEMORY's ENOMEM. Close it only when it was opened.
bool as_lines_open(struct as_lines *lines, int dir, const char *name);
// The next line without its newline, valid until the next call, not NUL-terminated; of a very long one (a path may be made
// longer than any limit) the first 64 KiB. NULL at the end, and when the process ended: see lines->error.
const char *as_lines_next(struct as_lines *lines, size_t *length);
void as_lines_close(struct as_lines *lines);

// Decimal and hexadecimal numbers; they move *text behind the digits and stop at `end`. Overflow yields UINT64_MAX.
uint64_t as_parse_decimal(const char **text, const char *end);
uint64_t as_parse_hex(const char **text, const char *end);

// The monotonic clock, nanoseconds. No inline function: the agent has each byte of code in memory.
uint64_t as_now_ns(void);

// Closes the file descriptor in *fd if there is one (for __attribute__((cleanup))); keeps errno.
void as_close_fd(int *fd);
#define AS_CLEANUP_FD __attribute__((cleanup(as_close_fd)))

// The number that a process has in the innermost of its PID namespaces; 0: it is gone.
pid_t as_proc_inner_pid(pid_t pid);
