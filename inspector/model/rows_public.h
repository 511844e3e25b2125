/* SPDX-License-Identifier: MIT
 * For arenascope.h: the rows as fields. That header is installed with the fields themselves instead. */
#define AS_ROW(name, ...) uint64_t name;
#include "rows.def"
