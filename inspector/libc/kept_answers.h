// SPDX-License-Identifier: MIT
// What files have told of the malloc in them, for a program that answers many requests: a libc's file, and its debug file, are the same
// in each. Not in the agent.
#pragma once

#include "libc/sources.h"

#ifndef AS_AGENT

// From now on answers are kept from one snapshot to the next. For one thread.
void as_answers_keep(void);

// What is kept of the files of an object; NULL: nothing is, or may be. It is what a reader of the files would find now: a file is the same
// where its device, number, size and times are, and it had rested for a while when it was read first.
struct as_kept_answers *as_answers_of(const struct as_object *object);

// As as_object_ask, as_object_banner and as_code_find (with a load bias of 0), which are called but once for the same files.
// `kept` may be NULL.
bool as_kept_ask(struct as_kept_answers *kept, struct as_object *object, enum as_layout_source source,
                 struct as_answer *answer);
const struct as_banner *as_kept_banner(struct as_kept_answers *kept, struct as_object *object);
void as_kept_code(struct as_kept_answers *kept, const struct as_elf *elf, struct as_libc *libc);

#else

static inline struct as_kept_answers *as_answers_of(const struct as_object *object)
{
    (void)object;
    return NULL;
}

static inline bool as_kept_ask(struct as_kept_answers *kept, struct as_object *object, enum as_layout_source source,
                               struct as_answer *answer)
{
    (void)kept;
    return as_object_ask(object, source, answer);
}

static inline const struct as_banner *as_kept_banner(struct as_kept_answers *kept, struct as_object *object)
{
    (void)kept;
    return as_object_banner(object);
}

static inline void as_kept_code(struct as_kept_answers *kept, const struct as_elf *elf, struct as_libc *libc)
{
    (void)kept;
    as_code_find(elf, 0, libc);
}

#endif
