// SPDX-License-Identifier: MIT
// The kinds of things that the records name (model/enums.def), as C has them: enum as_mode, AS_MODE_FREEZE, ...
#pragma once

#include <stdint.h>

// The value of an unknown number, null in JSON; never 0.
#define AS_UNKNOWN UINT64_MAX

#define AS_ENUM(name, ...)                                                                                             \
    enum as_##name                                                                                                     \
    {
#define AS_OPEN_ENUM(name, ...)                                                                                        \
    enum as_##name                                                                                                     \
    {
#define AS_BITS(name, ...)                                                                                             \
    enum as_##name                                                                                                     \
    {
#define AS_VALUE(name, value, ...) name = (value),
#define AS_OPEN_VALUE(name, value, ...) name = (value),
#define AS_BIT(name, value, ...) name = (value),
#define AS_END(name)                                                                                                   \
    }                                                                                                                  \
    ;
#define AS_OPEN_END(name)                                                                                              \
    }                                                                                                                  \
    ;
#define AS_BITS_END(name)                                                                                              \
    }                                                                                                                  \
    ;
#define AS_CONSTANT(name, value, ...) enum { name = (value) };
#include "model/enums.def"
