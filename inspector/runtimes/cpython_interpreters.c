// SPDX-License-Identifier: MIT
// Interpreters by what CPython publishes for debuggers from 3.13 on: _PyRuntime begins with the offsets of its own fields
// (struct _Py_DebugOffsets in Include/internal/pycore_debug_offsets.h; in pycore_runtime.h in 3.13), among them the list of
// interpreters. An interpreter's state points to the state of its allocator, which has its arrays of free pools first, and then the
// address of the array of arenas (struct _obmalloc_state in pycore_obmalloc.h). The offset of that pointer in the
// interpreter's state is not published, so each pointer there is followed.
#include "runtimes/cpython_interpreters.h"

#include "runtimes/regions.h"

enum {
    STEP = 512,               // words of a state that are read in one go
    MOST_INTERPRETERS = 4096, // in the list
    MOST_STATE = 16 << 20,    // bytes of a state; 3.14 has 340 KiB
    FREE_POOLS = 64 * 8,      // bytes of the arrays of free pools
};

// The beginning of struct _Py_DebugOffsets.
struct debug_offsets {
    uint64_t cookie, version;
    uint64_t free_threaded;
    uint64_t runtime_size, finalizing, interpreters_head;
    uint64_t state_size, id, next;
};

// What stands behind the arrays of free pools: struct _obmalloc_mgmt.
struct arena_management {
    uint64_t arenas;
    uint32_t count, padding;
};

static bool read_offsets(struct as_target *t, uint64_t runtime, struct debug_offsets *o)
{
    return as_target_read(t, runtime, o, sizeof *o) && o->cookie == AS_PY_RUNTIME_COOKIE && o->free_threaded == 0 &&
           o->runtime_size <= MOST_STATE && o->state_size <= MOST_STATE && o->state_size >= sizeof(uint64_t) &&
           o->interpreters_head < o->runtime_size && o->next <= o->state_size - sizeof(uint64_t);
}

bool as_py_is_free_threaded(struct as_target *t, uint64_t runtime)
{
    struct debug_offsets o;
    return as_target_read(t, runtime, &o, sizeof o) && o.cookie == AS_PY_RUNTIME_COOKIE && o.free_threaded == 1;
}

bool as_py_tables_add(struct as_target *t, const uint64_t *places, size_t count, as_py_pointer_vec *tables,
                      struct as_error *err)
{
    struct arena_management found[STEP];
    bool read[STEP];
    as_target_gather(t, places, count, sizeof *found, found, sizeof *found, read);
    for (size_t i = 0; i < count; i++) {
        if (!read[i] || !as_py_is_array_length(found[i].count) || found[i].arenas % sizeof(uint64_t) != 0 ||
            !as_is_runtime_memory(as_target_mapping_at(t, found[i].arenas)))
            continue;
        if (!as_vec_push(tables, err, found[i].arenas))
            return false;
    }
    return true;
}

// False: memory ran out. *readable: the state is.
static bool search_state(struct as_target *t, uint64_t state, uint64_t size, as_py_pointer_vec *tables,
                         int64_t *reads_left, bool *readable, struct as_error *err)
{
    for (uint64_t at = 0; at<size && * reads_left> 0; at += STEP * sizeof(uint64_t)) {
        uint64_t words[STEP], places[STEP];
        size_t length = size - at < sizeof words ? (size_t)(size - at) : sizeof words, count = 0;
        *readable = as_target_read(t, state + at, words, length);
        if (!*readable)
            return true;
        for (size_t i = 0; i < length / sizeof *words; i++)
            if (words[i] % sizeof *words == 0 && words[i] != 0 &&
                as_is_runtime_memory(as_target_mapping_at(t, words[i])))
                places[count++] = words[i] + FREE_POOLS;
        *reads_left -= (int64_t)count + 1;
        if (!as_py_tables_add(t, places, count, tables, err))
            return false;
    }
    return true;
}

bool as_py_interpreters_find(struct as_target *t, uint64_t runtime, as_py_pointer_vec *tables, int64_t *reads_left,
                             bool *whole, struct as_error *err)
{
    struct debug_offsets o;
    uint64_t state;
    *whole = false;
    if (!read_offsets(t, runtime, &o) || !as_target_read_u64(t, runtime + o.interpreters_head, &state))
        return true;
    for (int i = 0; i<MOST_INTERPRETERS && * reads_left> 0; i++) {
        bool readable = true;
        *whole = state == 0;
        if (*whole || state > UINT64_MAX - MOST_STATE)
            return true;
        // The first one's is one of the variables.
        bool is_first = state >= runtime && state - runtime < o.runtime_size;
        if (!is_first && !search_state(t, state, o.state_size, tables, reads_left, &readable, err))
            return false;
        if (!readable || !as_target_read_u64(t, state + o.next, &state))
            return true;
    }
    return true;
}
