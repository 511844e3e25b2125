// SPDX-License-Identifier: MIT
// Stacks as a recorder keeps them, made into the records of a snapshot: each frame once, and each stack as a frame and its caller's stack.
#pragma once

#include "base/number_map.h"
#include "model/store.h"
#include "profile/tables.h"

// The tables of a recorder, of which so much was read.
struct as_profile_tree {
    uint64_t *frames;
    uint32_t *stacks;
    uint64_t frame_count, stack_count;
};

struct as_profile_stacks {
    struct as_store *store;
    const uint32_t *module_of; // the record of each of the recorder's modules
    uint64_t module_count;
    // Adds the line of a frame of interpreted code (AS_PROFILE_PYTHON, AS_PROFILE_RUBY), and returns its record's index
    // + 1; 0: AS_NO_MEMORY. NULL: there are none.
    uint32_t (*line)(void *reader, uint64_t frame, struct as_error *err);
    void *reader;
    struct as_number_map frames, stacks;
};

// The record of a stack: of its innermost frame, a module's index << 48 | offset, and of its caller's record (UINT32_MAX: there is none).
// UINT32_MAX: AS_NO_MEMORY.
uint32_t as_profile_stacks_add(struct as_profile_stacks *s, uint32_t caller, uint64_t frame, struct as_error *err);

// What a reader knows of a stack of a recorder's tables.
struct as_profile_stack_state {
    uint32_t record; // and 1; 0: none was made yet
    uint32_t depth;  // its frames; 0: it does not hold
};

// Each depth. A stack does not hold that is deeper than AS_PROFILE_DEPTH, that has a frame that is not there, or whose caller is not before
// it.
void as_profile_stacks_measure(const struct as_profile_tree *tree, struct as_profile_stack_state *states);
// The record of a stack that holds, by which each frame of the table is inspected once. UINT32_MAX: AS_NO_MEMORY.
uint32_t as_profile_stacks_add_known(struct as_profile_stacks *s, const struct as_profile_tree *tree,
                                     struct as_profile_stack_state *states, uint32_t stack, struct as_error *err);

void as_profile_stacks_free(struct as_profile_stacks *s);

// A build-id in hexadecimal, of at most AS_PROFILE_BUILD_ID bytes.
void as_profile_build_id_text(const uint8_t *id, uint32_t size, char *out);
