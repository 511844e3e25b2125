// SPDX-License-Identifier: MIT
#include "dump/sections.h"

#define ONE(field, type)                                                                                               \
    {                                                                                                                  \
#field, sizeof(type), offsetof(struct as_view, field), AS_NO_COUNT                                             \
    }
#define MANY(field, type, counter)                                                                                     \
    {                                                                                                                  \
#field, sizeof(type), offsetof(struct as_view, field), offsetof(struct as_view, counter)                       \
    }

const struct as_section_kind as_section_kinds[AS_SECTION_COUNT] = {
    [AS_SECTION_META] = ONE(meta, struct as_dump_meta),
    [AS_SECTION_TOTALS] = ONE(totals, struct as_dump_totals),
    [AS_SECTION_MALLOCS] = MANY(mallocs, struct as_dump_malloc, malloc_count),
    [AS_SECTION_ARENAS] = MANY(arenas, struct as_dump_arena, arena_count),
    [AS_SECTION_HEAPS] = MANY(heaps, struct as_dump_heap, heap_count),
    [AS_SECTION_PAGES] = MANY(pages, struct as_page, page_count),
    [AS_SECTION_SIZES] = MANY(sizes, struct as_dump_size, size_count),
    [AS_SECTION_THREADS] = MANY(threads, struct as_dump_thread, thread_count),
    [AS_SECTION_MAPPINGS] = MANY(mappings, struct as_dump_mapping, mapping_count),
    [AS_SECTION_WARNINGS] = MANY(warnings, struct as_dump_warning, warning_count),
    [AS_SECTION_STRINGS] = MANY(strings, char, strings_size),
    [AS_SECTION_RUBY] = MANY(ruby, struct as_dump_ruby_page, ruby_count),
    [AS_SECTION_CHUNKS] = MANY(chunks, uint32_t, chunk_count),
};

// The sizes are the contract with other readers; a compiler that pads differently must not pass.
_Static_assert(sizeof(struct as_dump_meta) == 176, "dump format");
_Static_assert(sizeof(struct as_dump_malloc) == 176, "dump format");
_Static_assert(sizeof(struct as_dump_totals) == 320, "dump format");
_Static_assert(sizeof(struct as_dump_arena) == 384, "dump format");
_Static_assert(sizeof(struct as_dump_heap) == 80, "dump format");
_Static_assert(sizeof(struct as_dump_size) == 80, "dump format");
_Static_assert(sizeof(struct as_dump_thread) == 56, "dump format");
_Static_assert(sizeof(struct as_dump_mapping) == 64, "dump format");
_Static_assert(sizeof(struct as_dump_ruby_page) == 40, "dump format");
_Static_assert(sizeof(struct as_dump_warning) == 24, "dump format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the records are written as they lie in memory");
