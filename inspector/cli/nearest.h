// SPDX-License-Identifier: MIT
// Which word was meant by one that was mistyped.
#pragma once

#include <stddef.h>

enum { AS_NEAREST_LENGTH = 31 }; // of words that are compared; a longer one is near to none

// The one of `names` that the fewest edits make of `word` (a letter more, a letter less, another one, two exchanged), at most
// one for each three letters of it. NULL: there is none.
const char *as_nearest(const char *word, const char *const *names, size_t count);
