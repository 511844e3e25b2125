// SPDX-License-Identifier: MIT
// The stacks of a profile or of a record: as JSON, and as lines.
#pragma once

#include "cli/frame_names.h"
#include "cli/json.h"

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
void as_stacks_put_counts(struct as_json *j, const char *key, uint64_t count, uint64_t bytes);
// An interpreter (AS_TRACE_PYTHON, AS_TRACE_RUBY) that is there, and whose frames are not known; its release as a dump has it, 0: there
// is none.
void as_stacks_put_unknown(struct as_json *j, uint32_t language, uint32_t release);
void as_stacks_print_unknown(uint32_t language, uint32_t release);
// The innermost frames of a stack, a line for each function.
void as_stacks_print(struct as_stack_printing *p, uint32_t stack);
