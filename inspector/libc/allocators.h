// SPDX-License-Identifier: MIT
// Who answers malloc() in a target.
#pragma once

#include "libc/libc.h"
#include "libc/target_modules.h"

// Whether a module may hold a glibc malloc: libc.so.6, libc_malloc_debug.so, or a static program.
bool as_module_may_be_libc(const struct as_modules *modules, const struct as_module *module);
bool as_module_is_malloc_debug(const struct as_module *module);

// Sets out->kind, out->detail, out->go_program and out->interpreters from the modules and from out->libcs, which are complete.
void as_allocator_decide(const struct as_modules *modules, struct as_malloc *out);
