// SPDX-License-Identifier: MIT
// The public functions that look. Each does its work in the calling thread.
#include "agent/errors.h"
#include "agent/look.h"
#include "arenascope.h"

const char *arenascope_version(void)
{
    return AS_VERSION;
}

int arenascope_dump(const char *path, unsigned flags)
{
    struct as_call call = as_call_begin();
    bool ok = path && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_own_dump(path, -1, flags & ARENASCOPE_CHUNKS, call.err)
                  : as_fail(call.err, AS_USAGE, "a dump needs a path, and no other flag than ARENASCOPE_CHUNKS");
    return as_call_end(&call, ok);
}

int arenascope_dump_fd(int fd, unsigned flags)
{
    struct as_call call = as_call_begin();
    bool ok = fd >= 0 && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_own_dump(NULL, fd, flags & ARENASCOPE_CHUNKS, call.err)
                  : as_fail(call.err, AS_USAGE, "a dump needs an open file, and no other flag than ARENASCOPE_CHUNKS");
    return as_call_end(&call, ok);
}

int arenascope_summarize(struct arenascope_summary *out)
{
    struct as_call call = as_call_begin();
    struct as_own_look look = {0};
    bool ok = (out && out->size >= sizeof out->size) ||
              as_fail(call.err, AS_USAGE, "the summary's size is not set (ARENASCOPE_INIT)");
    ok = ok && as_own_look(&look, -1, call.err);
    if (ok)
        as_own_summary(&look, out);
    as_own_look_free(&look);
    return as_call_end(&call, ok);
}
