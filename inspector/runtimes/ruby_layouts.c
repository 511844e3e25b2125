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
     .flags = 24,
     .limit = 40,
     .measures = 1 << 11,
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
     .flags = 16,
     .limit = 32,
     .measures = 1 << 12,
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
     .singleton = 1 << 13,
     .flags = 20,
     .limit = 40,
     .measures = 1 << 12},
};

const struct as_ruby_layout *as_ruby_layouts(size_t *count)
{
    *count = sizeof layouts / sizeof *layouts;
    return layouts;
}

const char *as_ruby_type_name(uint32_t type)
{
    static const char *const names[AS_RUBY_TYPES] = {
        [AS_RUBY_T_OBJECT] = "T_OBJECT", [AS_RUBY_T_CLASS] = "T_CLASS",     [AS_RUBY_T_MODULE] = "T_MODULE",
        [AS_RUBY_T_FLOAT] = "T_FLOAT",   [AS_RUBY_T_STRING] = "T_STRING",   [AS_RUBY_T_REGEXP] = "T_REGEXP",
        [AS_RUBY_T_ARRAY] = "T_ARRAY",   [AS_RUBY_T_HASH] = "T_HASH",       [AS_RUBY_T_STRUCT] = "T_STRUCT",
        [AS_RUBY_T_BIGNUM] = "T_BIGNUM", [AS_RUBY_T_FILE] = "T_FILE",       [AS_RUBY_T_DATA] = "T_DATA",
        [AS_RUBY_T_MATCH] = "T_MATCH",   [AS_RUBY_T_COMPLEX] = "T_COMPLEX", [AS_RUBY_T_RATIONAL] = "T_RATIONAL",
        [AS_RUBY_T_SYMBOL] = "T_SYMBOL", [AS_RUBY_T_IMEMO] = "T_IMEMO",     [AS_RUBY_T_NODE] = "T_NODE",
        [AS_RUBY_T_ICLASS] = "T_ICLASS", [AS_RUBY_T_ZOMBIE] = "T_ZOMBIE",   [AS_RUBY_T_MOVED] = "T_MOVED",
    };
    return names[type];
}
