// SPDX-License-Identifier: MIT
// Arenascope.summary and .dump: arenascope.h's snapshots, made without the GVL. The snapshot stops nobody; it locks one arena at a time.
#include "native.h"

#include <ruby/thread.h>

static void *summarize(void *argument)
{
    return (void *)(intptr_t)arenascope_summarize(argument);
}

static VALUE number(uint64_t value)
{
    return value == ARENASCOPE_UNKNOWN ? Qnil : ULL2NUM(value);
}

// Native.summary → Hash with a number, or nil for what is not known, for each field.
static VALUE summary(VALUE self)
{
    struct arenascope_summary found = ARENASCOPE_INIT(found);
    as_check((int)(intptr_t)rb_thread_call_without_gvl(summarize, &found, NULL, NULL));

    VALUE hash = rb_hash_new();
#define SET(field) rb_hash_aset(hash, ID2SYM(rb_intern(#field)), number(found.field))
    SET(rss);
    SET(swap);
    SET(ruby_page_count);
    SET(ruby_slots);
    SET(ruby_free_slots);
    SET(arenas);
    SET(heaps);
    SET(threads);
    SET(torn_chunks);
    SET(longest_hold);
#define AS_ROW(name, ...) SET(name);
#include "../model/rows.def"
#undef SET
    rb_hash_aset(hash, ID2SYM(rb_intern("exact")), found.exact ? Qtrue : Qfalse);
    return hash;
}

struct dump {
    const char *path;
    unsigned flags;
};

static void *write_dump(void *argument)
{
    const struct dump *dump = argument;
    return (void *)(intptr_t)arenascope_dump(dump->path, dump->flags);
}

// Native.dump(path, chunks)
static VALUE dump(VALUE self, VALUE path, VALUE chunks)
{
    struct dump dump = {.path = StringValueCStr(path), .flags = RTEST(chunks) ? ARENASCOPE_CHUNKS : 0};
    as_check((int)(intptr_t)rb_thread_call_without_gvl(write_dump, &dump, NULL, NULL));
    RB_GC_GUARD(path);
    return Qnil;
}

// Native.dump_at(conditions, directory, chunks); conditions nil: no more. The library's thread is not Ruby's: it needs no GVL.
static VALUE dump_at(VALUE self, VALUE conditions, VALUE directory, VALUE chunks)
{
    const char *when = NIL_P(conditions) ? NULL : StringValueCStr(conditions);
    as_check(arenascope_dump_at(when, StringValueCStr(directory), RTEST(chunks) ? ARENASCOPE_CHUNKS : 0));
    return Qnil;
}

// Native::ROWS: the rows that summary has, and Native::FORECASTS.
static void define_rows(void)
{
    VALUE rows = rb_ary_new(), forecasts = rb_ary_new();
#define RESIDENT rows
#define ABSENT rows
#define FORECAST forecasts
#define BESIDE rows
#define AS_ROW(name, kind, ...) rb_ary_push(kind, ID2SYM(rb_intern(#name)));
#include "../model/rows.def"
    rb_define_const(as_native, "ROWS", rb_obj_freeze(rows));
    rb_define_const(as_native, "FORECASTS", rb_obj_freeze(forecasts));
}

void as_init_snapshot(void)
{
    define_rows();
    rb_define_module_function(as_native, "summary", summary, 0);
    rb_define_module_function(as_native, "dump", dump, 2);
    rb_define_module_function(as_native, "dump_at", dump_at, 3);
}
