// SPDX-License-Identifier: MIT
// The memory manager of PHP (Zend) in a target, found from outside by structure, with no symbols (zend.c).
#pragma once

#include "runtimes/finder.h"

// Finds PHP's heaps (7, 8): chunks in use, cached chunks, huge blocks. If a PHP is mapped and no heap fits, a record with state
// AS_REGIONS_UNPROVEN, and a warning.
bool as_zend_find(const struct as_finder_input *in);
