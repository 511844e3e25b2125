// SPDX-License-Identifier: MIT
#include "native.h"

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <time.h>

VALUE as_native;
static VALUE error_class;

void as_raise(int code, const char *why)
{
    VALUE arguments[] = {rb_utf8_str_new_cstr(why), INT2FIX(code)};
    rb_exc_raise(rb_class_new_instance(2, arguments, error_class));
}

void as_check(int code)
{
    if (code != ARENASCOPE_OK)
        as_raise(code, arenascope_error());
}

uint64_t as_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Whether two functions are of one library.
static bool together(void *one, void *other)
{
    Dl_info a, b;
    return dladdr(one, &a) && dladdr(other, &b) && a.dli_fbase == b.dli_fbase;
}

// Native.own_malloc?: whether malloc_trim() is of the malloc that this process uses: a preloaded jemalloc leaves it glibc's.
static VALUE own_malloc(VALUE self)
{
    void *(*allocate)(size_t) = malloc;
    int (*trim)(size_t) = malloc_trim;
    return together((void *)allocate, (void *)trim) ? Qtrue : Qfalse;
}

// Native.handled?(signal): whether it has a handler that is not Ruby's. Ruby's trap would replace that for ever.
static VALUE handled(VALUE self, VALUE signal)
{
    struct sigaction now;
    if (sigaction(NUM2INT(signal), NULL, &now) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
        return Qfalse;
    return together((void *)now.sa_handler, (void *)rb_define_module) ? Qfalse : Qtrue;
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
    rb_define_module_function(as_native, "handled?", handled, 1);
    as_init_snapshot();
    as_init_give_back();
    as_init_after_gc();
}
