// SPDX-License-Identifier: MIT
// The memory manager of PHP (Zend) in a target, found from outside by structure, with no symbols (zend.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for PHP's heaps (7, 8) in a target that stands still and whose residency is known. If there are, a record
// of them is added to `store`, with their regions: chunks in use, cached chunks, huge blocks. If a PHP is mapped and no heap
// fits, a record with state AS_REGIONS_UNPROVEN, and a warning. False (AS_NO_MEMORY): our memory ran out.
bool as_zend_find(struct as_target *t, struct as_store *store, struct as_error *err);
