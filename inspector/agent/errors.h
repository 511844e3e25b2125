// SPDX-License-Identifier: MIT
// The last error of each thread.
#pragma once

#include "base/error.h"

// The calling thread's last error, to be written. Allocates nothing from malloc.
struct as_error *as_last_error(void);
// Its text; "" where the thread has none.
const char *as_last_error_text(void);
