// SPDX-License-Identifier: MIT
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void vwrite(struct as_error *err, enum as_code code, const char *format, va_list args)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, format, args);
}

bool as_fail(struct as_error *err, enum as_code code, const char *format, ...)
{
    if (!err)
        return false;
    va_list args;
    va_start(args, format);
    vwrite(err, code, format, args);
    va_end(args);
    return false;
}

bool as_fail_errno(struct as_error *err, enum as_code code, const char *format, ...)
{
    int saved = errno;
    if (!err)
        return false;
    bool no_descriptor = saved == EMFILE || saved == ENFILE;
    if (saved == ESRCH)
        code = AS_TARGET_GONE;
    else if (saved == EPERM || saved == EACCES)
        code = AS_DENIED;
    else if (no_descriptor)
        code = AS_NO_MEMORY;
    va_list args;
    va_start(args, format);
    vwrite(err, code, format, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s%s", strerror(saved),
             no_descriptor ? "; raise the limit (ulimit -n, sysctl fs.file-max) and try again" : "");
    errno = saved;
    return false;
}

void as_error_add(struct as_error *err, const char *text)
{
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "%s", text);
}
