// SPDX-License-Identifier: MIT
// arenadump agent: writes the agent's library, for a program that has yet to start.
#include "cli/cli.h"
#include "inject/library.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// By its name in LD_PRELOAD the agent knows that it is preloaded (agent/environment.c), and `trim` that it is there.
static bool may_be_preloaded(const char *path, struct as_error *err)
{
    static const char NAME[] = "libarenascope.so";
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, NAME, strlen(NAME)) == 0 ||
           as_fail(err, AS_USAGE, "agent: '%s': the file's name must begin with %s, by which the agent knows itself",
                   path, NAME);
}

// Other users' programs may load it, too: it gets the mode of what a compiler writes.
static bool publish(struct as_output *file, struct as_error *err)
{
    mode_t mask = umask(0);
    umask(mask);
    return (fchmod(file->fd, 0644 & ~mask) == 0 ||
            as_fail_errno(err, AS_IO, "cannot set the mode of '%s'", file->path)) &&
           as_output_finish(file, err);
}

static bool write_file(struct as_output *file, const char *path, struct as_error *err)
{
    return may_be_preloaded(path, err) && as_output_begin(file, path, err) && as_library_write(file, err) &&
           publish(file, err);
}

static bool write_output(struct as_output *file, struct as_error *err)
{
    if (isatty(STDOUT_FILENO))
        return as_fail(err, AS_USAGE, "a library is not for a terminal: give -o FILE, or redirect standard output");
    return as_output_begin(file, NULL, err) && as_library_write(file, err) && as_output_copy(file, STDOUT_FILENO, err);
}

bool as_cmd_agent(const struct as_options *o, struct as_error *err)
{
    struct as_output file = AS_OUTPUT_CLOSED;
    as_signals_guard(&file);
    bool ok = strcmp(o->output, "-") == 0 ? write_output(&file, err) : write_file(&file, o->output, err);
    as_output_close(&file);
    as_signals_guard(NULL);
    return ok;
}
