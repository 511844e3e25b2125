// SPDX-License-Identifier: MIT
// Arenascope.summary and .dump: arenascope.h's looks, made without the GVL. The look stops nobody; it locks one arena at a time.
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
    SET(in_use);
    SET(tcache);
    SET(fastbin);
    SET(stranded);
    SET(releasable);
    SET(withheld);
    SET(metadata);
    SET(mmapped_in_use);
    SET(mmapped_slack);
    SET(other_file);
    SET(other_anon);
    SET(other_shmem);
    SET(stacks);
    SET(unknown);
    SET(ruby_pages);
    SET(ruby_page_count);
    SET(ruby_slots);
    SET(ruby_free_slots);
    SET(returned);
    SET(untouched);
    SET(swapped_in_use);
    SET(swapped_free);
    SET(malloc_trim);
    SET(deep_trim);
    SET(arenas);
    SET(heaps);
    SET(threads);
    SET(torn_chunks);
    SET(longest_hold);
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

void as_init_look(void)
{
    rb_define_module_function(as_native, "summary", summary, 0);
    rb_define_module_function(as_native, "dump", dump, 2);
}
