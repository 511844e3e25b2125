// SPDX-License-Identifier: MIT
// What every C test uses: a condition that must hold, or the program ends with status 1 and says where and why.
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 4, 5), noreturn)) static inline void
check_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    int error = errno;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: this does not hold: %s", file, line, condition);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (errno: %s)\n", strerror(error));
    va_end(args);
    exit(1);
}

// CHECK(condition) or CHECK(condition, format, ...).
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            check_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                                             \
    } while (0)

// Both are unsigned 64-bit numbers; the message has their values.
#define CHECK_EQUAL(found, expected)                                                                                   \
    do {                                                                                                               \
        unsigned long long found_ = (found), expected_ = (expected);                                                   \
        if (found_ != expected_)                                                                                       \
            check_failed(__FILE__, __LINE__, #found " == " #expected, ": %#llx is not %#llx", found_, expected_);      \
    } while (0)
