// SPDX-License-Identifier: MIT
// The names of dumps: a pattern, which is filled in for each dump.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Fills in a pattern: %p the pid, %t the seconds since the epoch, %n `count`, %e the program's name, %% a percent sign;
// anything else stays as it is. False when it does not fit.
bool as_pattern_expand(const char *pattern, uint32_t count, char *out, size_t size);
// Makes a pattern absolute, by the current directory. False when it does not fit.
bool as_pattern_resolve(const char *pattern, char *out, size_t size);
