// SPDX-License-Identifier: MIT
#include "model/rows.h"

// Two tables, so that what counts and shows nothing (the agent) is linked without the words.
const struct as_row as_rows[AS_ROW_COUNT] = {
#define ROW_COUNTS true
#define ROW_NO false
#define AS_ROW(name, kind, owner, group, held, ...) [AS_ROW_##name] = {AS_ROW_##kind, AS_ROW_OF_##owner, ROW_##held},
#include "model/rows.def"
};

const struct as_row_words as_row_words[AS_ROW_COUNT] = {
#define AS_ROW(name, kind, owner, group, held, paint, colours, title, meaning, definition)                             \
    [AS_ROW_##name] = {#name, title, meaning, AS_ROWS_##group},
#include "model/rows.def"
};
