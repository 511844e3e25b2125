// SPDX-License-Identifier: MIT
#include "native.h"

#include <dlfcn.h>
#include <malloc.h>
#include <time.h>

VALUE as_native;
static VALUE error_class;

void as_check(int code)
{
    if (code == ARENASCOPE_OK)
        return;
    VALUE arguments[] = {rb_utf8_str_new_cstr(arenascope_error()), INT2FIX(code)};
    rb_exc_raise(rb_class_new_instance(2, arguments, error_class));
}

uint64_t as_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Whether malloc_trim() is of the malloc that this process uses: a preloaded jemalloc leaves it glibc's.
static VALUE own_malloc(VALUE self)
{
    Dl_info allocates, trims;
    void *(*allocate)(size_t) = malloc;
    int (*trim)(size_t) = malloc_trim;
    bool same =
        dladdr((void *)allocate, &allocates) && dladdr((void *)trim, &trims) && allocates.dli_fbase == trims.dli_fbase;
    return same ? Qtrue : Qfalse;
}

RUBY_FUNC_EXPORTED void Init_arenascope(void)
{
#ifdef HAVE_RB_EXT_RACTOR_SAFE
    rb_ext_ractor_safe(true);
#endif
    VALUE module = rb_define_module("Arenascope");
    error_class = rb_const_get(module, rb_intern("Error"));
    rb_gc_register_mark_object(error_class);
    as_native = rb_define_module_under(module, "Native");
    rb_gc_register_mark_object(as_native);
    rb_define_module_function(as_native, "own_malloc?", own_malloc, 0);
    as_init_look();
    as_init_give_back();
    as_init_after_gc();
}
