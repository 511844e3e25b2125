// SPDX-License-Identifier: MIT
#include "model/view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

const char *as_arena_name(const struct as_view *v, uint32_t arena, char out[AS_ARENA_NAME])
{
    uint32_t mains = 0, before = 0;
    for (uint32_t i = 0; i < v->arena_count; i++) {
        bool main = v->arenas[i].flags & AS_ARENA_MAIN;
        mains += main;
        before += main && i <= arena;
    }
    if (!(v->arenas[arena].flags & AS_ARENA_MAIN))
        snprintf(out, AS_ARENA_NAME, "arena %" PRIu32, arena);
    else if (mains == 1)
        snprintf(out, AS_ARENA_NAME, "main arena");
    else
        snprintf(out, AS_ARENA_NAME, "main arena %" PRIu32, before);
    return out;
}
