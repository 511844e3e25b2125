// SPDX-License-Identifier: MIT
// The process we are part of, and its malloc: found once, and again when libraries have come or gone.
#pragma once

#include "libc/libc.h"
#include "target/target.h"

struct as_own {
    struct as_target *target;
    struct as_malloc malloc;
};

// AS_NO_MALLOC where malloc is not glibc's. `counted` as of as_target_open_self. Close it in either case.
bool as_own_open(struct as_own *own, bool counted, struct as_error *err);
void as_own_close(struct as_own *own);
// In a child of fork(), whose parent may have been in the middle of it: forgets what was found.
void as_own_forget(void);
