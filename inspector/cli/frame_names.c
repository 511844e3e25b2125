// SPDX-License-Identifier: MIT
#include "cli/stacks.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

// The root of the process that has the modules: a container's files are there. A dump's process may still run; where another has its
// number by now, the build-ids tell.
static void set_root(struct as_frame_names *n, const struct as_snapshot *snapshot)
{
    int root;
    if (snapshot->view.meta->target_kind != AS_TARGET_PROCESS)
        return;
    if (snapshot->target) {
        root = snapshot->target->ops->open_root ? snapshot->target->ops->open_root(snapshot->target) : -1;
    } else {
        root = open(as_proc_name("/proc/%" PRIu32 "/root", snapshot->view.meta->pid).text,
                    O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (root >= 0)
        as_places_set_root(&n->places, root, snapshot->target != NULL);
}

// After an upgrade the program and its libraries run on, and their files have no names any more. Where another process
// has the number by now, the build-ids tell.
static int open_mapped(void *context, uint64_t address)
{
    struct as_frame_names *n = context;
    struct as_error err;
    if (!n->searched)
        n->process = as_target_open_process((pid_t)n->view->meta->pid, &err);
    n->searched = true;
    const struct as_mapping *m = n->process ? as_target_mapping_at(n->process, address) : NULL;
    return m ? n->process->ops->open_file(n->process, m, &err) : -1;
}

// A compiler names the file by its own number: in a container that is another than ours.
static bool add_perf_map(struct as_frame_names *n, const struct as_snapshot *snapshot, struct as_error *err)
{
    char path[64];
    struct stat process;
    if (snapshot->from_dump || snapshot->view.meta->target_kind != AS_TARGET_PROCESS)
        return true;
    snprintf(path, sizeof path, "/proc/%" PRIu32, snapshot->view.meta->pid);
    pid_t inner = as_proc_inner_pid((pid_t)snapshot->view.meta->pid);
    if (inner == 0 || stat(path, &process) != 0) // it has ended since
        return true;
    if (!n->places.has_root && inner != (pid_t)snapshot->view.meta->pid) // in our /tmp, this name is of another process
        return true;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", inner);
    return as_places_add_perf_map(&n->places, path, process.st_uid, err);
}

static uint32_t add_text(struct as_frame_names *n, uint32_t text)
{
    const char *known = as_view_string(n->view, text);
    return known[0] ? as_strings_add(&n->places.strings, known, SIZE_MAX) : 0;
}

static bool add_lines(struct as_frame_names *n, struct as_error *err)
{
    const struct as_view *v = n->view;
    AS_FOR_ITEMS(const struct as_profile_line_record, line, v->profile_lines, v->profile_line_count) {
        struct as_code_place *place = as_vec_add(&n->lines, err);
        if (!place)
            return false;
        *place = (struct as_code_place){.line = line->line, .source = AS_PLACE_DEBUG_INFO};
        place->function = add_text(n, line->function);
        place->file = add_text(n, line->file);
    }
    return true;
}

bool as_frame_names_open(struct as_frame_names *n, const struct as_snapshot *snapshot, struct as_error *err)
{
    const struct as_view *v = &snapshot->view;
    *n = (struct as_frame_names){.view = v};
    for (uint64_t i = 0; i < v->profile_module_count && i < AS_PLACES_JIT; i++) {
        const struct as_profile_module_record *m = &v->profile_modules[i];
        if (as_places_add_module(&n->places, as_view_string(v, m->path), as_view_string(v, m->build_id), m->start,
                                 err) != i)
            return false;
    }
    set_root(n, snapshot);
    if (v->meta->target_kind == AS_TARGET_PROCESS)
        as_places_set_open(&n->places, open_mapped, n);
    return add_lines(n, err) && add_perf_map(n, snapshot, err);
}

const struct as_profile_line_record *as_frame_names_line(const struct as_frame_names *n,
                                                         const struct as_profile_frame_record *frame)
{
    return frame->line > 0 && frame->line <= n->view->profile_line_count ? &n->view->profile_lines[frame->line - 1]
                                                                         : NULL;
}

const struct as_code_place *as_frame_names_at(struct as_frame_names *n, const struct as_profile_frame_record *frame,
                                              size_t *count, struct as_error *err)
{
    const struct as_profile_line_record *line = as_frame_names_line(n, frame);
    if (line) {
        *count = 1;
        return &n->lines.items[line - n->view->profile_lines];
    }
    uint32_t module = frame->module < n->places.modules.count ? frame->module : AS_PLACES_JIT;
    // The address before the one to which the call returns is the call's.
    uint64_t address = frame->offset > 0 ? frame->offset - 1 : 0;
    const struct as_code_place *found = as_places_at(&n->places, module, address, count, err);
    if (found && found->source == AS_PLACE_UNKNOWN)
        *count = 0;
    return found;
}

const char *as_frame_names_text(const struct as_frame_names *n, uint32_t text)
{
    return text != 0 ? as_strings_at(&n->places.strings, text) : NULL;
}

void as_frame_names_close(struct as_frame_names *n)
{
    as_places_free(&n->places);
    as_vec_free(&n->lines);
    if (n->process)
        as_target_close(n->process);
}
