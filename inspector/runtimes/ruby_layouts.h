// SPDX-License-Identifier: MIT
// How releases of Ruby lay out struct heap_page (gc.c; gc/default/default.c from 3.4), on 64-bit machines. Internal to runtimes/.
#pragma once

#include "runtimes/ruby.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AS_RUBY_HEADER = 64, // bytes of struct heap_page that any layout inspects
    AS_RUBY_TYPES = 32,  // RUBY_T_MASK and one
};

// What an object is, by its flags (include/ruby/internal/value_type.h).
enum as_ruby_type {
    AS_RUBY_T_OBJECT = 1,
    AS_RUBY_T_CLASS = 2,
    AS_RUBY_T_MODULE = 3,
    AS_RUBY_T_FLOAT = 4,
    AS_RUBY_T_STRING = 5,
    AS_RUBY_T_REGEXP = 6,
    AS_RUBY_T_ARRAY = 7,
    AS_RUBY_T_HASH = 8,
    AS_RUBY_T_STRUCT = 9,
    AS_RUBY_T_BIGNUM = 10,
    AS_RUBY_T_FILE = 11,
    AS_RUBY_T_DATA = 12,
    AS_RUBY_T_MATCH = 13,
    AS_RUBY_T_COMPLEX = 14,
    AS_RUBY_T_RATIONAL = 15,
    AS_RUBY_T_SYMBOL = 20,
    AS_RUBY_T_IMEMO = 26,
    AS_RUBY_T_NODE = 27,
    AS_RUBY_T_ICLASS = 28,
    AS_RUBY_T_ZOMBIE = 29,
    AS_RUBY_T_MOVED = 30,
};

static inline enum as_ruby_type as_ruby_type_of(uint64_t flags)
{
    return flags & (AS_RUBY_TYPES - 1);
}

struct as_ruby_layout {
    const char *releases;
    uint32_t align;     // a page's address is a multiple of it (HEAP_PAGE_ALIGN)
    uint32_t size;      // HEAP_PAGE_SIZE: 40 bytes less where malloc makes the pages
    int slot_size;      // offsets, -1 where there is no such field; the slots are of 40 bytes then
    int total_slots;    // 16 bits, as slot_size
    int pool;           // pointer into struct objspace: the size pool, the heap
    int body;           // pointer to the page itself
    int start;          // pointer to the first slot
    int node;           // list node of the pages of one heap; its head is in struct objspace
    int array_data;     // in the array of all pages: the first element, behind what heads it
    uint32_t singleton; // flag of a class that is a singleton class
    int flags, limit;   // bytes from these fields of struct objspace to its first heap; 0: not known (ruby_collector.c)
    uint32_t measures;  // the uppermost of the flags: measure_gc
    bool transient;     // some of the releases have a transient heap (ruby_transient.h)
};

// Fills in free_slots of every page. A page that cannot be read unproves the whole.
bool as_ruby_count_slots(struct as_target *t, struct as_ruby *r, struct as_error *err);

// Is the collector switched off (GC.disable)? False, too: that is not known. Of pages that are apart (as_ruby_is_apart).
bool as_ruby_collector_is_off(struct as_target *t, const struct as_store *store);

// The known ones; *count of them.
const struct as_ruby_layout *as_ruby_layouts(size_t *count);

// The name of a type of objects, of AS_RUBY_TYPES: "T_STRING"; NULL: there is no such type.
const char *as_ruby_type_name(uint32_t type);
