// SPDX-License-Identifier: MIT
#include "cli/open_target.h"
#include "cli/summary/summary.h"
#include "config.h"
#include "profile/growth.h"

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

static bool open_process(struct as_snapshot *snapshot, const char *argument, struct as_error *err)
{
    errno = 0;
    unsigned long pid = strtoul(argument, NULL, 10);
    if (errno || pid == 0 || pid > INT_MAX)
        return as_fail(err, AS_NO_TARGET, "no process has the id %s", argument);
    snapshot->target = as_target_open_process((pid_t)pid, err);
    if (snapshot->target)
        as_watch_start(&snapshot->watch, snapshot->target);
    return snapshot->target != NULL;
}

static bool open_file(struct as_snapshot *snapshot, const char *path, struct as_error *err)
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
        snapshot->target = as_target_open_core(path, err);
        return snapshot->target != NULL;
    }
    if (known < 7 || memcmp(magic, AS_DUMP_MAGIC, 7) != 0)
        return as_fail(err, AS_BAD_INPUT, "'%s' is neither a dump of arenascope nor a core file", path);
    snapshot->from_dump = true;
    if (!as_dump_open(&snapshot->dump, path, err))
        return false;
    snapshot->view = snapshot->dump.view;
    return true;
}

bool as_snapshot_open(struct as_snapshot *snapshot, const char *argument, struct as_error *err)
{
    *snapshot = (struct as_snapshot){0};
    return is_number(argument) ? open_process(snapshot, argument, err) : open_file(snapshot, argument, err);
}

bool as_snapshot_is_process(const struct as_snapshot *snapshot, const char *command, const char *argument,
                            struct as_error *err)
{
    return (snapshot->target && snapshot->target->kind == AS_TARGET_PROCESS) ||
           as_fail(err, AS_USAGE, "%s: '%s' is not a running process", command, argument);
}

bool as_snapshot_open_process(struct as_snapshot *snapshot, const char *command, const char *argument,
                              struct as_error *err)
{
    return as_snapshot_open(snapshot, argument, err) && as_snapshot_is_process(snapshot, command, argument, err);
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

bool as_snapshot_take(struct as_snapshot *snapshot, const struct as_options *options, struct as_dump_writer *writer,
                      bool chunks, struct as_error *err)
{
    if (snapshot->from_dump)
        return true;
    struct as_snapshot_options how = {
        .chunk_fd = writer && chunks ? writer->file.fd : -1,
        .chunk_start = AS_DUMP_DATA_START,
        .objects = options->objects ? &as_object_counting : NULL,
        .reader = snapshot->reader,
        .baseline = snapshot->baseline,
        .noted = snapshot->more && snapshot->baseline && snapshot->baseline->typed ? &snapshot->noted : NULL,
        .profile = true,
        .runtime_pages = writer != NULL,
        .allowed_sources = options->allowed_sources,
        .mode = options->mode,
        .force = options->force,
        .max_pause_ns = options->max_pause_ns,
    };
    if (!as_snapshot_make(snapshot->target, &how, &snapshot->store, err))
        return false;
    if (snapshot->more && !snapshot->more->add(snapshot->more->context, &snapshot->store, err))
        return false;
    snapshot->store.meta.tool_version = as_strings_add(&snapshot->store.strings, AS_VERSION, sizeof AS_VERSION);
    if (!writer) {
        snapshot->view = as_store_view(&snapshot->store);
        return true;
    }
    if (!add_summary(&snapshot->store, err))
        return false;
    // Read back what was written: whatever we make of it, another reader of the file will make of it too.
    if (!as_dump_finish(writer, &snapshot->store, err) ||
        !as_dump_open_fd(&snapshot->dump, writer->file.fd, "the dump made just before", err))
        return false;
    snapshot->view = snapshot->dump.view;
    return true;
}

bool as_snapshot_needs_glibc(const struct as_snapshot *snapshot, const struct as_options *options, struct as_error *err)
{
    const struct as_view *v = &snapshot->view;
    return v->malloc_count > 0 ||
           as_fail(err, AS_NO_MALLOC,
                   "'%s' does not use glibc's malloc (%s: %s); arenadump summary shows which memory it has",
                   options->target, as_malloc_kind_name(v->meta->malloc_kind),
                   as_view_string(v, v->meta->malloc_detail));
}

void as_snapshot_close(struct as_snapshot *snapshot)
{
    as_watch_stop(&snapshot->watch);
    as_dump_file_close(&snapshot->dump);
    as_store_free(&snapshot->store);
    as_vec_free(&snapshot->noted);
    as_target_close(snapshot->target);
    snapshot->target = NULL;
}
