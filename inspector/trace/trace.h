// SPDX-License-Identifier: MIT
// Reading the file of a trace: untrusted, and perhaps cut off by the death of its process.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "trace/format.h"

#include <stdbool.h>

struct as_trace_event {
    uint64_t time; // ticks
    uint64_t address;
    uint64_t size;      // of an allocation, as asked for
    uint64_t alignment; // 0: not asked for
    uint32_t kind;      // as_trace_event_kind, never AS_TRACE_TIME
    uint32_t thread;
    uint32_t context; // 0: none
};

// A frame, and the stack of its caller. Stacks have numbers from 1 on, in the order of the file.
struct as_trace_stack {
    uint64_t frame;  // a module's index << 48 | offset; or see AS_TRACE_NO_MODULE
    uint32_t caller; // its number, which is lower; 0: there is none, or it is not known
    uint32_t depth;  // frames
};

struct as_trace_context {
    uint32_t stack; // its number; 0: it is not known
    bool complete;  // the outermost frame is there
};

// A function of an interpreter's: where its names are in the texts. name 0: the record does not have it.
struct as_trace_function {
    uint64_t name, file;
};

// One that was there at any time, and whose frames are not known.
struct as_trace_interpreter {
    uint32_t language; // AS_TRACE_PYTHON, AS_TRACE_RUBY
    uint32_t release;  // as in as_trace_interpreters, not 0
};

struct as_trace_place {
    uint64_t offset;
    uint32_t words;
    uint32_t next; // the index + 1 of the thread's next block
};

// A thread's events, in turn.
struct as_trace_cursor {
    uint64_t *words; // of the block that is being read
    uint32_t at, count;
    uint32_t next; // block
    uint64_t time;
    struct as_trace_event event;
};

struct as_trace_thread {
    uint32_t first, last; // of its blocks, the index + 1
    uint64_t lost_allocations, lost_frees;
};

// A record that is open. All blocks have been checked once, when it was opened: blocks of events are read again later, and what has
// changed in them meanwhile is not noticed, unless it is no event (`malformed`).
struct as_trace {
    int file;
    struct as_trace_head head;
    uint64_t whole, size; // bytes of the whole blocks, and of the file
    struct as_trace_state first, last;
    AS_VEC(struct as_trace_interpreter) interpreters;
    struct as_trace_ending end; // reason 0: there is none, the process has not come to its end
    AS_VEC(struct as_trace_place) places;
    AS_VEC(struct as_trace_module) modules;
    AS_VEC(struct as_trace_context) contexts;   // by id, from AS_TRACE_FIRST_CONTEXT on
    AS_VEC(struct as_trace_stack) stacks;       // by number, from 1 on
    AS_VEC(struct as_trace_function) functions; // by index
    AS_VEC(char) texts;                         // their names, each with its NUL; the first is empty
    struct as_trace_thread threads[AS_TRACE_MOST_THREADS];
    struct as_trace_cursor *cursors; // a heap of those that have events
    size_t cursor_count;
    uint64_t malformed; // pieces of blocks that hold no event
};

// AS_BAD_INPUT: not a record, or one that contradicts itself. Close it in either case.
bool as_trace_open(struct as_trace *r, const char *path, struct as_error *err);
// The events of all threads, by their times. False without an error: no more.
bool as_trace_begin(struct as_trace *r, struct as_error *err);
bool as_trace_next(struct as_trace *r, struct as_trace_event *event, struct as_error *err);
// Nanoseconds since the record began; AS_UNKNOWN where the file has only one instant on both clocks.
uint64_t as_trace_time(const struct as_trace *r, uint64_t ticks);
// NULL: the file does not have it.
const struct as_trace_context *as_trace_context(const struct as_trace *r, uint32_t id);
// One that a context or another stack names.
const struct as_trace_stack *as_trace_stack(const struct as_trace *r, uint32_t number);
// Tells what a frame of interpreted code (AS_TRACE_PYTHON, AS_TRACE_RUBY) is: the names of its function and file ("": not known), and its
// line (0: not known).
void as_trace_line(const struct as_trace *r, uint64_t frame, const char **name, const char **file, uint32_t *line);
void as_trace_close(struct as_trace *r);
