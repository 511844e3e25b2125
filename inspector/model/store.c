// SPDX-License-Identifier: MIT
#include "model/store.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT = 512 };

void as_store_warn(struct as_store *s, enum as_warning_code code, uint32_t arena, uint32_t heap, uint64_t address,
                   const char *format, ...)
{
    char text[TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct as_warning_record *warning = as_vec_add(&s->warnings, NULL);
    if (warning)
        *warning = (struct as_warning_record){.text = as_strings_add(&s->strings, text, sizeof text),
                                              .code = code,
                                              .arena = arena,
                                              .heap = heap,
                                              .address = address};
}

static void free_walk(struct as_store *s)
{
#define AS_ONE(...)
#define AS_WALKED(name, ...) as_vec_free(&s->name);
#define AS_MANY(...)
#define AS_PLAIN(...)
#include "model/sections.def"
}

void as_store_clear_walk(struct as_store *s, size_t warnings)
{
    free_walk(s);
    s->warnings.count = warnings;
    s->totals = (struct as_totals_record){0};
    s->meta.torn_chunks = 0;
}

void as_store_free(struct as_store *s)
{
    free_walk(s);
#define AS_ONE(...)
#define AS_WALKED(...)
#define AS_MANY(name, ...) as_vec_free(&s->name);
#define AS_PLAIN(...)
#include "model/sections.def"
    AS_FREE_VECS(s, strings, summary);
}

struct as_view as_store_view(const struct as_store *s)
{
    return (struct as_view){
#define AS_ONE(name, ...) .name = &s->name,
#define AS_WALKED(name, record, ...) .name = s->name.items, .record##_count = s->name.count,
#define AS_MANY AS_WALKED
#define AS_PLAIN(...)
#include "model/sections.def"
        .strings = s->strings.items,
        .strings_size = s->strings.count,
        .summary = s->summary.items,
        .summary_size = s->summary.count,
    };
}
