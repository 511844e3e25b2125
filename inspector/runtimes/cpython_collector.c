// SPDX-License-Identifier: MIT
// Whether CPython's collector of cycles is switched off (gc.disable). Its objects are in rings of PyGC_Head, one for each generation,
// and the heads of the three rings stand one behind the other in an interpreter's state, right behind the numbers `enabled` and `debug`
// (struct _gc_runtime_state, 3.8 to 3.14). So the first object of a ring leads to the state.
#include "runtimes/cpython_count.h"

enum {
    GENERATIONS = 3,
    RINGS = 6,
    TRIES = 1 << 14, // to read what may be a head
};
static const uint64_t FLAGS = 3; // of a PyGC_Head's words

// Where heads are, behind that of the youngest generation. The last three: of what gc.freeze() has set apart, in 3.14, up to 3.12,
// and in 3.13, whose structures are packed.
static const uint64_t rings[RINGS] = {0, 24, 48, 72, 80, 84};

// struct gc_generation.
struct generation {
    uint64_t next, previous;
    int32_t threshold, count;
};

// Is this the head of a ring? The next one in the ring says so.
static bool is_head(struct as_target *t, const struct generation *g, uint64_t address)
{
    uint64_t next[2];
    return g->threshold >= 0 && as_target_read(t, g->next & ~FLAGS, next, sizeof next) && (next[1] & ~FLAGS) == address;
}

// Is the head of the youngest generation at `first`? From 3.14 on, a fourth ring is right behind the three.
static bool are_heads(struct as_target *t, uint64_t first, const struct generation state[1 + GENERATIONS])
{
    bool all = !is_head(t, &state[0], first - sizeof *state);
    for (size_t i = 0; i < GENERATIONS && all; i++)
        all = is_head(t, &state[1 + i], first + i * sizeof *state);
    return all;
}

// Are the last 12 bytes before the heads 0? Up to 3.11 they are `enabled`, `debug` and padding, from 3.12 on a field before these two,
// `enabled` and `debug`.
static bool is_off(const struct generation *before)
{
    return before->previous >> 32 == 0 && before->threshold == 0 && before->count == 0;
}

static bool lies_in_arenas(const struct as_py_count *c, uint64_t address)
{
    size_t at = AS_PARTITION_POINT(0, c->region_count, i, c->regions[i].address + c->regions[i].size <= address);
    return at < c->region_count && address >= c->regions[at].address;
}

void as_py_collector_try(struct as_py_count *c, uint64_t previous)
{
    struct generation state[1 + GENERATIONS];
    uint64_t head = previous & ~FLAGS;
    if (head <= rings[RINGS - 1] + sizeof *state || head >> AS_PY_ADDRESS_BITS != 0 || lies_in_arenas(c, head))
        return;
    for (size_t i = 0; i < RINGS && c->collector_tries < TRIES; i++) {
        uint64_t first = head - rings[i];
        c->collector_tries++;
        if (as_target_read(c->target, first - sizeof *state, state, sizeof state) &&
            are_heads(c->target, first, state)) {
            c->collector = is_off(&state[0]) ? AS_PY_COLLECTOR_OFF : AS_PY_COLLECTOR_FOUND;
            return;
        }
    }
}
