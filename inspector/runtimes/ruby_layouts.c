// SPDX-License-Identifier: MIT
#include "runtimes/ruby_layouts.h"

// Read in the sources of 2.6.0, 2.7.4, 3.0.0, 3.1.2, 3.2, 3.3.8, 3.4.5 and 4.0. What shows that one of them is in force is not
// the version but that Ruby's whole array of pages fits it (ruby_find.c).
static const struct as_ruby_layout layouts[] = {
    {.releases = "2.6 to 3.0",
     .align = 16384,
     .size = 16384 - 40,
     .slot_size = -1,
     .total_slots = 0,
     .pool = -1,
     .body = -1,
     .start = 24,
     .node = 40,
     .singleton = 1 << 12},
    {.releases = "3.1",
     .align = 16384,
     .size = 16384,
     .slot_size = 0,
     .total_slots = 2,
     .pool = 16,
     .body = -1,
     .start = 32,
     .node = 48,
     .singleton = 1 << 12,
     .transient = true},
    {.releases = "3.2, 3.3",
     .align = 65536,
     .size = 65536,
     .slot_size = 0,
     .total_slots = 2,
     .pool = 16,
     .body = -1,
     .start = 32,
     .node = 48,
     .singleton = 1 << 12,
     .transient = true},
    {.releases = "3.4, 4.0",
     .align = 65536,
     .size = 65536,
     .slot_size = 0,
     .total_slots = 2,
     .pool = 16,
     .body = 32,
     .start = 40,
     .node = 56,
     .array_data = 16,
     .singleton = 1 << 13},
};

const struct as_ruby_layout *as_ruby_layouts(size_t *count)
{
    *count = sizeof layouts / sizeof *layouts;
    return layouts;
}

const char *as_ruby_type_name(uint32_t type)
{
    static const char *const names[AS_RUBY_TYPES] = {
        [1] = "T_OBJECT",  [2] = "T_CLASS",  [3] = "T_MODULE", [4] = "T_FLOAT",    [5] = "T_STRING",
        [6] = "T_REGEXP",  [7] = "T_ARRAY",  [8] = "T_HASH",   [9] = "T_STRUCT",   [10] = "T_BIGNUM",
        [11] = "T_FILE",   [12] = "T_DATA",  [13] = "T_MATCH", [14] = "T_COMPLEX", [15] = "T_RATIONAL",
        [20] = "T_SYMBOL", [26] = "T_IMEMO", [27] = "T_NODE",  [28] = "T_ICLASS",  [29] = "T_ZOMBIE",
        [30] = "T_MOVED",
    };
    return names[type];
}
