// SPDX-License-Identifier: MIT
#include "inject/library.h"

#include "base/output.h"

#include <fcntl.h>
#include <stdlib.h>

// agent_file.S
extern const uint8_t as_agent_file[];
extern const uint64_t as_agent_file_size;

static bool has_own(struct as_error *err)
{
    return as_agent_file_size > 0 || as_fail(err, AS_NO_TARGET,
                                             "this arenadump was built without the agent: name its library in "
                                             "$ARENASCOPE_LIBRARY");
}

bool as_library_write(struct as_output *to, struct as_error *err)
{
    return has_own(err) && as_output_write(to, as_agent_file, as_agent_file_size, 0, err);
}

bool as_library_open(struct as_library *library, struct as_error *err)
{
    const char *chosen = secure_getenv("ARENASCOPE_LIBRARY"); // not a caller's who borrows our rights (setuid)
    if (chosen && *chosen) {
        library->name = chosen;
        library->fd = open(chosen, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        return library->fd >= 0 || as_fail_errno(err, AS_NO_TARGET, "$ARENASCOPE_LIBRARY names '%s'", chosen);
    }
    struct as_output memory = AS_OUTPUT_CLOSED;
    bool ok = as_output_begin(&memory, NULL, err) && as_library_write(&memory, err);
    if (!ok)
        as_output_close(&memory);
    *library = (struct as_library){memory.fd, "this arenadump"};
    return ok;
}
