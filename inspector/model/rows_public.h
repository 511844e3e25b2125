/* SPDX-License-Identifier: MIT
 * For arenascope.h: the rows as fields, those of one place. That header is installed with the fields themselves instead. */
#define ARENASCOPE_ROWS_NO(name)
#define AS_ROW(name, kind, owner, group, since, api, ...) ARENASCOPE_ROWS_##api(name)
#include "rows.def"
#undef ARENASCOPE_ROWS_A
#undef ARENASCOPE_ROWS_B
#undef ARENASCOPE_ROWS_C
#undef ARENASCOPE_ROWS_NO
