// SPDX-License-Identifier: MIT
#include "cli/stacks.h"
#include "findings/humanize.h"
#include "trace/format.h"

#include <inttypes.h>
#include <stdio.h>

enum { FRAMES = 8, PATH_COLUMNS = 60, NAME_COLUMNS = 90, TEXT_SIZE = 4 * NAME_COLUMNS + 1 };

static const char *module_path(const struct as_view *v, uint32_t module)
{
    return module < v->profile_module_count ? as_view_string(v, v->profile_modules[module].path) : NULL;
}

static const struct as_code_place *functions_of(struct as_stack_printing *p, const struct as_profile_frame_record *f,
                                                size_t *count)
{
    const struct as_code_place *found = as_frame_names_at(&p->names, f, count, p->err);
    p->ok = p->ok && found;
    *count = found ? *count : 0;
    return found;
}

void as_stacks_put_modules(struct as_json *j, const struct as_view *v)
{
    as_json_array(j, "modules");
    AS_FOR_ITEMS(const struct as_profile_module_record, m, v->profile_modules, v->profile_module_count) {
        as_json_object(j, NULL);
        as_json_string(j, "path", as_view_string(v, m->path));
        as_json_string(j, "build_id", as_view_string(v, m->build_id));
        AS_JSON_ADDRESSES(j, m, start, end, bias);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_frame(struct as_json *j, struct as_stack_printing *p, const struct as_profile_frame_record *f)
{
    size_t count;
    const struct as_code_place *functions = functions_of(p, f, &count);
    const struct as_profile_line_record *line = as_frame_names_line(&p->names, f);
    as_json_object(j, NULL);
    as_json_number(j, "module", f->module < p->view->profile_module_count ? f->module : AS_UNKNOWN);
    as_json_address(j, "offset", f->offset);
    as_json_string(j, "language", line ? as_view_string(p->view, line->language) : "native");
    as_json_array(j, "functions");
    for (size_t i = 0; i < count; i++) {
        as_json_object(j, NULL);
        as_json_string(j, "name", as_frame_names_text(&p->names, functions[i].function));
        as_json_string(j, "file", as_frame_names_text(&p->names, functions[i].file));
        as_json_number(j, "line", functions[i].line != 0 ? functions[i].line : AS_UNKNOWN);
        as_json_bool(j, "inlined", functions[i].inlined);
        as_json_object_end(j);
    }
    as_json_array_end(j);
    as_json_object_end(j);
}

void as_stacks_put_unknown(struct as_json *j, uint32_t language, uint32_t release)
{
    char text[sizeof "255.255"];
    if (release == 0)
        return;
    snprintf(text, sizeof text, "%u.%u", release >> 8 & UINT8_MAX, release & UINT8_MAX);
    as_json_object(j, NULL);
    as_json_string(j, "language", language == AS_TRACE_RUBY ? "ruby" : "python");
    as_json_string(j, "release", release == AS_PROFILE_SOME_RELEASE ? NULL : text);
    as_json_object_end(j);
}

void as_stacks_print_unknown(uint32_t language, uint32_t release)
{
    const char *name = language == AS_TRACE_RUBY ? "Ruby" : "Python";
    if (release == AS_PROFILE_SOME_RELEASE)
        printf("%s of an unknown release: its frames are not known\n", name);
    else if (release)
        printf("%s %" PRIu32 ".%" PRIu32 ": its frames are not known\n", name, release >> 8, release & UINT8_MAX);
}

// Stacks have most of their frames in common: all frames once, and the tree that the stacks are.
void as_stacks_put_tree(struct as_json *j, struct as_stack_printing *p)
{
    const struct as_view *v = p->view;
    as_json_array(j, "frames");
    for (uint64_t i = 0; i < v->profile_frame_count; i++)
        put_frame(j, p, &v->profile_frames[i]);
    as_json_array_end(j);
    as_json_object(j, "stacks");
    as_json_array(j, "frame");
    for (uint64_t i = 0; i < v->profile_stack_count; i++)
        as_json_number(j, NULL, v->profile_stacks[i].frame);
    as_json_array_end(j);
    as_json_array(j, "caller");
    for (uint64_t i = 0; i < v->profile_stack_count; i++)
        as_json_number(j, NULL, v->profile_stacks[i].caller < i ? v->profile_stacks[i].caller : AS_UNKNOWN);
    as_json_array_end(j);
    as_json_object_end(j);
}

static void print_function(const struct as_stack_printing *p, const struct as_code_place *place, const char *path)
{
    char name[TEXT_SIZE], file[TEXT_SIZE];
    const char *source = as_frame_names_text(&p->names, place->file);
    const char *function = as_frame_names_text(&p->names, place->function);
    printf("%25s%s", "", as_safe_text(function ? function : "?", SIZE_MAX, NAME_COLUMNS, true, name, sizeof name));
    if (source && place->line != 0)
        printf("  %s:%" PRIu32, as_safe_text(source, SIZE_MAX, PATH_COLUMNS, true, file, sizeof file), place->line);
    else if (path)
        printf("  (%s)", as_safe_text(path, SIZE_MAX, PATH_COLUMNS, true, file, sizeof file));
    printf("%s\n", place->inlined ? "  inlined" : "");
}

static void print_frame(struct as_stack_printing *p, const struct as_profile_frame_record *f)
{
    char text[TEXT_SIZE];
    const char *path = module_path(p->view, f->module);
    size_t count;
    const struct as_code_place *functions = functions_of(p, f, &count);
    for (size_t i = 0; i < count; i++)
        print_function(p, &functions[i], path);
    if (count > 0)
        return;
    if (path)
        printf("%25s%s+0x%" PRIx64 "\n", "", as_safe_text(path, SIZE_MAX, PATH_COLUMNS, true, text, sizeof text),
               f->offset);
    else
        printf("%25s0x%" PRIx64 "\n", "", f->offset);
}

void as_stacks_print(struct as_stack_printing *p, uint32_t stack)
{
    const struct as_view *v = p->view;
    for (int i = 0; i < FRAMES && stack < v->profile_stack_count; i++, stack = v->profile_stacks[stack].caller)
        print_frame(p, &v->profile_frames[v->profile_stacks[stack].frame]);
    if (stack < v->profile_stack_count)
        printf("%25s...\n", "");
}
