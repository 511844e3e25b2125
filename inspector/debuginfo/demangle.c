// SPDX-License-Identifier: MIT
#include "debuginfo/demangle.h"
#include "config.h"

#include <string.h>

#ifdef HAVE_LIBIBERTY
#include <libiberty/demangle.h>
#include <setjmp.h>

const bool as_demangle = true;

struct output {
    char *text;
    size_t size, length;
    jmp_buf full;
};

// A short name may stand for one of any length (each part may refer to all before it): what does not fit ends the demangler, which
// has nothing allocated then.
static void put_demangled_part(const char *part, size_t length, void *context)
{
    struct output *o = context;
    if (length >= o->size - o->length)
        longjmp(o->full, 1);
    memcpy(o->text + o->length, part, length);
    o->length += length;
    o->text[o->length] = '\0';
}

static bool demangle_to(struct output *o, const char *name, bool type)
{
    if (type)
        return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI | DMGL_TYPES, put_demangled_part, o);
    if (strncmp(name, "_ZN", 3) == 0 &&
        rust_demangle_callback(name, 0, put_demangled_part, o)) // Rust's older way, known by its hash
        return true;
    if (strncmp(name, "_Z", 2) == 0)
        return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, put_demangled_part, o);
    return strncmp(name, "_R", 2) == 0 && rust_demangle_callback(name, 0, put_demangled_part, o);
}

// NOLINTNEXTLINE(readability-non-const-parameter): written through the struct
static bool demangle(const char *name, bool type, char *out, size_t size)
{
    struct output o = {.text = out, .size = size};
    return setjmp(o.full) == 0 && demangle_to(&o, name, type);
}
#else
const bool as_demangle = false;

static bool demangle(const char *name, bool type, char *out, size_t size)
{
    (void)name;
    (void)type;
    (void)out;
    (void)size;
    return false;
}
#endif

const char *as_name_demangled(const char *name, bool type, char *out, size_t size)
{
    if (demangle(name, type, out, size) && out[0] != '\0')
        return out;
    size_t length = strnlen(name, size - 1);
    memcpy(out, name, length);
    out[length] = '\0';
    return out;
}
