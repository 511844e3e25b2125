// SPDX-License-Identifier: MIT
// The public functions that look. Each does its work in the calling thread.
#include "agent/capture.h"
#include "agent/errors.h"
#include "arenascope.h"

const char *arenascope_version(void)
{
    return AS_VERSION;
}

int arenascope_dump(const char *path, unsigned flags)
{
    struct as_api_call call = as_api_begin();
    bool ok = path && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_agent_dump(path, -1, flags & ARENASCOPE_CHUNKS, call.err)
                  : as_fail(call.err, AS_USAGE, "a dump needs a path, and no other flag than ARENASCOPE_CHUNKS");
    return as_api_end(&call, ok);
}

int arenascope_dump_fd(int fd, unsigned flags)
{
    struct as_api_call call = as_api_begin();
    bool ok = fd >= 0 && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_agent_dump(NULL, fd, flags & ARENASCOPE_CHUNKS, call.err)
                  : as_fail(call.err, AS_USAGE, "a dump needs an open file, and no other flag than ARENASCOPE_CHUNKS");
    return as_api_end(&call, ok);
}

int arenascope_summarize(struct arenascope_summary *out)
{
    struct as_api_call call = as_api_begin();
    struct as_agent_capture look = {0};
    bool ok = (out && out->size >= sizeof out->size) ||
              as_fail(call.err, AS_USAGE, "the summary's size is not set (ARENASCOPE_INIT)");
    ok = ok && as_agent_capture(&look, -1, call.err);
    if (ok)
        as_agent_summary(&look, out);
    as_agent_capture_free(&look);
    return as_api_end(&call, ok);
}
