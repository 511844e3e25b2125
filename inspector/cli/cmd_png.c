// SPDX-License-Identifier: MIT
#include "cli/cli.h"
#include "cli/open_target.h"
#include "config.h"
#include "png/png.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LIBPNG
// Makes the directory if need be. A symlink is refused, with or without a slash behind it.
static int open_directory(const char *path, struct as_error *err)
{
    char name[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length >= sizeof name) {
        as_fail(err, AS_IO, "'%s' does not name a directory", path);
        return -1;
    }
    memcpy(name, path, length);
    name[length] = '\0';
    if (mkdir(name, 0700) != 0 && errno != EEXIST) {
        as_fail_errno(err, AS_IO, "cannot make the directory '%s'", name);
        if (err)
            err->code = AS_IO;
        return -1;
    }
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        as_fail_errno(err, AS_IO, "'%s' is not a directory to write into (symbolic links are not followed)", name);
        if (err)
            err->code = AS_IO;
    }
    return fd;
}

static bool draw(const struct as_options *o, const struct as_snapshot *snapshot, struct as_output *file,
                 struct as_error *err)
{
    struct as_png_result result;
    int directory = open_directory(o->output, err);
    if (directory < 0)
        return false;
    struct as_png_options options = {
        .directory = directory, .palette = (enum as_palette)o->palette, .scale = o->scale, .file = file};
    bool ok = as_png_draw(&snapshot->view, &options, &result, err);
    close(directory);
    if (!ok)
        return false;
    printf("%" PRIu64 " picture%s in %s; README.txt there says what each shows\n", result.pictures,
           result.pictures == 1 ? "" : "s", o->output);
    if (!snapshot->view.chunks)
        fprintf(stderr,
                "arenadump: the dump has no chunk records, so there are overviews only: take it with --chunks\n");
    if (result.torn_heaps)
        fprintf(stderr, "arenadump: the chunk records of %" PRIu64 " heaps do not cover them; drawn as unknown\n",
                result.torn_heaps);
    return true;
}

bool as_cmd_png(const struct as_options *o, struct as_error *err)
{
    struct as_snapshot snapshot;
    struct as_dump_writer memory = {AS_OUTPUT_CLOSED};
    struct as_output file = AS_OUTPUT_CLOSED;
    as_signals_guard(&file);
    bool ok = as_snapshot_open(&snapshot, o->target, err) &&
              (snapshot.from_dump || as_dump_begin(&memory, NULL, err)) &&
              as_snapshot_take(&snapshot, o, &memory, true, err) && as_snapshot_needs_glibc(&snapshot, o, err) &&
              draw(o, &snapshot, &file, err);
    as_signals_guard(NULL);
    as_dump_close(&memory);
    as_snapshot_close(&snapshot);
    return ok;
}
#else
bool as_cmd_png(const struct as_options *o, struct as_error *err)
{
    return as_fail(err, AS_UNSUPPORTED,
                   "this arenadump was built without libpng: make a dump here (arenadump dump %s --chunks -o FILE) and "
                   "draw it with an arenadump that has libpng",
                   o->target);
}
#endif
