// SPDX-License-Identifier: MIT
// The stacks of a profile or of a record: as JSON, and as lines.
#pragma once

#include "cli/json.h"
#include "cli/open_target.h"
#include "symbolize/places.h"

// The functions of a profile's frames, by files of this machine: programs, libraries, their debug information, perf maps.
struct as_frame_names {
    struct as_places places;
    as_place_vec lines; // of interpreted code: of each record in the view
    const struct as_view *view;
    struct as_target *process; // that has the modules; NULL: it was not needed, or does not run any more
    bool searched;
};

// For the snapshot's profile; the perf map is that of a process which runs. Close it in either case. False: AS_NO_MEMORY.
bool as_frame_names_open(struct as_frame_names *n, const struct as_snapshot *snapshot, struct as_error *err);
// The functions of a frame, innermost first; *count 0: none is known. NULL: AS_NO_MEMORY. Valid until the next call. Their texts are
// unsafe for a terminal.
const struct as_code_place *as_frame_names_at(struct as_frame_names *n, const struct as_profile_frame_record *frame,
                                              size_t *count, struct as_error *err);
// The line of interpreted code that a frame is; NULL: it is a return address.
const struct as_profile_line_record *as_frame_names_line(const struct as_frame_names *n,
                                                         const struct as_profile_frame_record *frame);
// A text of a place; NULL: not known.
const char *as_frame_names_text(const struct as_frame_names *n, uint32_t text);
void as_frame_names_close(struct as_frame_names *n);

// What is printed, of which view, with the names of its frames. `ok` until there is no memory for these.
struct as_stack_printing {
    const struct as_view *view;
    struct as_frame_names names;
    struct as_error *err;
    bool ok;
};

void as_stacks_put_modules(struct as_json *j, const struct as_view *v);
// All frames, and all stacks: each a frame and its caller's stack.
void as_stacks_put_tree(struct as_json *j, struct as_stack_printing *p);
// An interpreter (AS_TRACE_PYTHON, AS_TRACE_RUBY) that is there, and whose frames are not known; its release as a dump has it, 0: there
// is none.
void as_stacks_put_unknown(struct as_json *j, uint32_t language, uint32_t release);
void as_stacks_print_unknown(uint32_t language, uint32_t release);
// The innermost frames of a stack, a line for each function.
void as_stacks_print(struct as_stack_printing *p, uint32_t stack);
