// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "cli/open_target.h"
#include "cli/enum_names.h"
#include "cli/summary.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

static bool open_process(struct as_look *look, const char *argument, struct as_error *err)
{
    errno = 0;
    unsigned long pid = strtoul(argument, NULL, 10);
    if (errno || pid == 0 || pid > INT_MAX)
        return as_fail(err, AS_NO_TARGET, "no process has the id %s", argument);
    look->target = as_target_open_process((pid_t)pid, err);
    if (look->target)
        as_watch_start(&look->watch, look->target);
    return look->target != NULL;
}

static bool open_file(struct as_look *look, const char *path, struct as_error *err)
{
    char magic[8] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not make us wait
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return as_fail(err, AS_NO_TARGET, "'%s' is neither a process id nor a file", path);
    if (fd < 0)
        return as_fail_errno(err, AS_NO_TARGET, "cannot open '%s'", path);
    struct stat st;
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    ssize_t length = regular ? pread(fd, magic, sizeof magic, 0) : 0;
    close(fd);
    if (!regular)
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a regular file", path);
    // Why a compressed core is none yet, its reader says best.
    size_t known = length > 0 ? (size_t)length : 0;
    if ((known >= 4 && memcmp(magic, "\177ELF", 4) == 0) || as_core_compression(magic, known)) {
        look->target = as_target_open_core(path, err);
        return look->target != NULL;
    }
    if (known < 7 || memcmp(magic, AS_DUMP_MAGIC, 7) != 0)
        return as_fail(err, AS_BAD_INPUT, "'%s' is neither a dump of arenascope nor a core file", path);
    look->from_dump = true;
    if (!as_dump_open(&look->dump, path, err))
        return false;
    look->view = look->dump.view;
    return true;
}

bool as_look_open(struct as_look *look, const char *argument, struct as_error *err)
{
    *look = (struct as_look){0};
    return is_number(argument) ? open_process(look, argument, err) : open_file(look, argument, err);
}

bool as_look_is_process(const struct as_look *look, const char *command, const char *argument, struct as_error *err)
{
    return (look->target && look->target->kind == AS_TARGET_PROCESS) ||
           as_fail(err, AS_USAGE, "%s: '%s' is not a running process", command, argument);
}

bool as_look_open_process(struct as_look *look, const char *command, const char *argument, struct as_error *err)
{
    return as_look_open(look, argument, err) && as_look_is_process(look, command, argument, err);
}

// What the file says of itself, so that its readers need compute nothing.
static bool add_summary(struct as_store *s, struct as_error *err)
{
    char *text = NULL;
    size_t size = 0;
    struct as_view view = as_store_view(s);
    bool ok = as_summary_text(&view, &text, &size, err) && as_vec_reserve(&s->summary, size, err);
    if (ok)
        memcpy(s->summary.items, text, s->summary.count = size);
    free(text);
    return ok;
}

bool as_look_take(struct as_look *look, const struct as_options *options, struct as_dump_writer *writer, bool chunks,
                  struct as_error *err)
{
    if (look->from_dump)
        return true;
    struct as_capture_options how = {
        .chunk_fd = writer && chunks ? writer->file.fd : -1,
        .chunk_start = AS_DUMP_DATA_START,
        .objects = options->objects ? &as_object_counting : NULL,
        .reader = look->reader,
        .profile = true,
        .runtime_pages = writer != NULL,
        .allowed_sources = options->allowed_sources,
        .mode = options->mode,
        .force = options->force,
        .max_pause_ns = options->max_pause_ns,
    };
    if (!as_capture(look->target, &how, &look->store, err))
        return false;
    if (look->more && !look->more->add(look->more->context, &look->store, err))
        return false;
    look->store.meta.tool_version = as_strings_add(&look->store.strings, AS_VERSION, sizeof AS_VERSION);
    if (!writer) {
        look->view = as_store_view(&look->store);
        return true;
    }
    if (!add_summary(&look->store, err))
        return false;
    // Read back what was written: whatever we make of it, another reader of the file will make of it too.
    if (!as_dump_finish(writer, &look->store, err) ||
        !as_dump_open_fd(&look->dump, writer->file.fd, "the dump made a moment ago", err))
        return false;
    look->view = look->dump.view;
    return true;
}

bool as_look_needs_glibc(const struct as_look *look, const struct as_options *options, struct as_error *err)
{
    const struct as_view *v = &look->view;
    return v->malloc_count > 0 ||
           as_fail(err, AS_NO_MALLOC,
                   "'%s' does not use glibc's malloc (%s: %s); arenadump summary shows which memory it has",
                   options->target, as_malloc_kind_name(v->meta->malloc_kind),
                   as_view_string(v, v->meta->malloc_detail));
}

void as_look_close(struct as_look *look)
{
    as_watch_stop(&look->watch);
    as_dump_file_close(&look->dump);
    as_store_free(&look->store);
    as_target_close(look->target);
    look->target = NULL;
}
