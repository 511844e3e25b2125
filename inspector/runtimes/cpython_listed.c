// SPDX-License-Identifier: MIT
// Interpreters of 3.12, which have arenas of their own as later ones do, but publish no offsets. Three of CPython's variables follow
// each other: the address of the newest interpreter's state, of the first one's, and the number that the next one gets
// (struct pyinterpreters in Include/internal/pycore_runtime.h). A state begins with the address of the next older one and its own
// number (pycore_interp.h). So a list is proven: from the newest to the first, whose number is 0, each has a lower number
// than the one before. The first state is one of the variables, too, and so the place of its arenas is known; the others have
// theirs at the same distance from their beginning. Where it is 0, an interpreter shares those of the first one.
#include "runtimes/cpython_interpreters.h"

#include "runtimes/regions.h"

enum {
    STEP = 4096,           // words of the variables that are read in one go
    TOGETHER = 3,          // words that are inspected
    PLACES = 4,            // of the first interpreter's address of arenas: others may resemble it
    MOST_NUMBER = 1 << 20, // of an interpreter
    MOST_LISTED = 4096,    // interpreters
};

struct listing {
    struct as_target *target;
    struct as_error *err;
    uint64_t start, end; // of the variables
    uint64_t table;      // the first interpreter's
    uint64_t places[PLACES];
    size_t place_count;
    as_py_pointer_vec *tables;
    int64_t reads_left;
};

// The beginning of a state.
struct state {
    uint64_t next;
    int64_t id;
};

// Goes through the variables, with up to TOGETHER words at each place. False: memory ran out.
static bool scan(struct listing *l, bool (*visit)(struct listing *l, uint64_t address, const uint64_t words[TOGETHER]))
{
    uint64_t words[STEP];
    for (uint64_t at = l->start; at < l->end && l->reads_left > 0; at += (STEP - TOGETHER + 1) * sizeof *words) {
        size_t length = l->end - at < sizeof words ? (size_t)(l->end - at) : sizeof words;
        size_t count = as_target_read_resident(l->target, at, words, length) / sizeof *words;
        --l->reads_left;
        for (size_t i = 0; i + TOGETHER <= count; i++)
            if (!visit(l, at + i * sizeof *words, words + i))
                return false;
    }
    return true;
}

static bool note_place(struct listing *l, uint64_t address, const uint64_t words[TOGETHER])
{
    if (words[0] == l->table && as_py_is_array_length((uint32_t)words[1]) && l->place_count < PLACES)
        l->places[l->place_count++] = address;
    return true;
}

// Goes through a list from its newest interpreter to the first one, and notes the states of the others. False: it is none.
static bool is_list(struct listing *l, uint64_t newest, uint64_t first, int64_t number, uint64_t *states, size_t *count)
{
    *count = 0;
    for (uint64_t at = newest; *count < MOST_LISTED && --l->reads_left > 0;) {
        struct state s;
        if (at % sizeof at != 0 || !as_target_read(l->target, at, &s, sizeof s) || s.id < 0 || s.id >= number)
            return false;
        if (at == first)
            return s.id == 0 && s.next == 0;
        states[(*count)++] = at;
        number = s.id;
        at = s.next;
    }
    return false;
}

// Adds the tables of states which have theirs where the first one has it.
static bool add_tables(struct listing *l, const uint64_t *states, size_t count, uint64_t distance)
{
    for (size_t i = 0; i < count && --l->reads_left > 0; i++) {
        uint64_t place = states[i] + distance;
        if (!as_py_tables_add(l->target, &place, 1, l->tables, l->err))
            return false;
    }
    return true;
}

static bool follow_list(struct listing *l, uint64_t address, const uint64_t words[TOGETHER])
{
    uint64_t newest = words[0], first = words[1], states[MOST_LISTED];
    size_t count;
    (void)address;
    if (newest == first || first < l->start || first >= l->end || words[2] < 2 || words[2] > MOST_NUMBER ||
        !as_is_runtime_memory(as_target_mapping_at(l->target, newest)) ||
        !is_list(l, newest, first, (int64_t)words[2], states, &count))
        return true;
    for (size_t i = 0; i < l->place_count; i++)
        if (l->places[i] > first && !add_tables(l, states, count, l->places[i] - first))
            return false;
    return true;
}

bool as_py_interpreters_listed(struct as_target *t, uint64_t start, uint64_t end, uint64_t table,
                               as_py_pointer_vec *tables, int64_t *reads_left, struct as_error *err)
{
    struct listing l = {.target = t,
                        .err = err,
                        .start = start,
                        .end = end,
                        .table = table,
                        .tables = tables,
                        .reads_left = *reads_left};
    bool ok = scan(&l, note_place) && (l.place_count == 0 || scan(&l, follow_list));
    *reads_left = l.reads_left;
    return ok;
}
