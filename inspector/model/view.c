// SPDX-License-Identifier: MIT
#include "model/view.h"

#include <inttypes.h>
#include <stdio.h>

void as_arena_place_step(struct as_arena_place *place, uint32_t index, bool is_main)
{
    place->index = index;
    place->is_main = is_main;
    place->nth_main += is_main;
}

static bool is_main(const struct as_view *v, uint32_t arena)
{
    return v->arenas[arena].flags & AS_ARENA_MAIN;
}

struct as_arena_place as_arena_place_begin(const struct as_view *v)
{
    struct as_arena_place place = {0};
    for (uint32_t i = 0; i < v->arena_count; i++)
        place.mains += is_main(v, i);
    return place;
}

const char *as_arena_place_name(const struct as_arena_place *place, char out[AS_ARENA_NAME])
{
    if (!place->is_main)
        snprintf(out, AS_ARENA_NAME, "arena %" PRIu32, place->index);
    else if (place->mains == 1)
        snprintf(out, AS_ARENA_NAME, "main arena");
    else
        snprintf(out, AS_ARENA_NAME, "main arena %" PRIu32, place->nth_main);
    return out;
}

const char *as_arena_name(const struct as_view *v, uint32_t arena, char out[AS_ARENA_NAME])
{
    struct as_arena_place place = as_arena_place_begin(v);
    for (uint32_t i = 0; i <= arena; i++)
        as_arena_place_step(&place, i, is_main(v, i));
    return as_arena_place_name(&place, out);
}
