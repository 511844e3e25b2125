// SPDX-License-Identifier: MIT
// The chain of a thread's own frames. It stands while an allocation lasts: only the thread itself changes it, and it changes nothing
// while malloc is called. What is read may be garbage nevertheless: a signal handler may have interrupted the change of a link, and a
// thread without the GIL may outlive the interpreter. So each pointer is one into readable memory before it is followed, what
// it leads to has the right type, and entries stand on the C stack one above the other. An interpreter that ends is not inspected.
#include "recorder/context_memo.h"
#include "recorder/hot_path.h"

#define ENTERED UINT64_C(0x5851f42d4c957f2d) // what a key is mixed with: the frame is the outermost one of its entry

enum {
    MOST_FRAMES = AS_RECORDER_DEPTH - 1,
    MOST_STEPS = 1 << 16, // of a walk
    CODE_UNIT = 2,        // bytes of an instruction, or of a cache behind it
    POINTER_TAGS = 7,     // 3.14: of a pointer to a code object
};

struct walking {
    const struct as_python_layout *l;
    const struct as_recorder_thread *thread;
    struct as_inner_walk *walk;  // NULL: the hash is enough
    uintptr_t sp, end;           // of the C stack
    uintptr_t entry;             // the last place on it
    struct as_inner_near near;   // the last page with a frame
    bool remembers;              // what is known of code objects can be believed
    bool is_plain;               // what `last` can keep: each entry runs a frame
    size_t count;                // of frames
    size_t first;                // of those whose place is not known yet
    size_t same;                 // frames of the last walk that are there still: all behind the ones that were counted
    uint64_t *keys;              // of frames
    struct as_python_last *last; // NULL: each frame is inspected
};

static inline bool is_readable_frame(struct walking *w, uintptr_t frame)
{
    return frame % sizeof(uintptr_t) == 0 && as_inner_readable_near(frame, AS_PYTHON_FRAME_READ, &w->near);
}

static uintptr_t code_of(const struct as_python_layout *l, uintptr_t frame)
{
    return as_inner_word(frame + l->code) & ~(uintptr_t)POINTER_TAGS;
}

static int64_t instruction_of(const struct as_python_layout *l, uintptr_t frame, uintptr_t code)
{
    return (int64_t)(as_inner_word(frame + l->instruction) - code - l->bytecode);
}

static bool write_frame(struct as_inner_frame *frame, uintptr_t code, int64_t at, uint64_t key)
{
    if (!as_python_is_object(code, as_python.layout.bytecode, as_python.code_type))
        return false;
    int64_t size = (int64_t)as_inner_half(code + AS_PYTHON_SIZE) * CODE_UNIT;
    if (at < -CODE_UNIT || at >= size || at % CODE_UNIT != 0)
        return false;
    *frame = (struct as_inner_frame){.code = code, .at = at, .key = key};
    return true;
}

static inline bool add_frame(struct walking *w, uintptr_t frame)
{
    uint64_t identity;
    uintptr_t code = code_of(w->l, frame);
    int64_t at = instruction_of(w->l, frame, code);
    if (!(w->remembers && as_python_remembers(code, &identity)) && !as_python_identify(code, w->remembers, &identity))
        return false;
    uint64_t key = identity + (uint64_t)at * AS_RECORDER_FACTOR;
    if (w->walk && !write_frame(&w->walk->frames[w->count], code, at, key))
        return false;
    w->keys[w->count] = key;
    if (w->last)
        w->last->fresh[w->count].at = (struct as_python_words){.frame = frame,
                                                               .previous = as_inner_word(frame + w->l->previous),
                                                               .instruction = as_inner_word(frame + w->l->instruction)};
    w->count++;
    return true;
}

// --- The last walk ----------------------------------------------------------------------------------------------------

// Nothing is readable for ever, and a code object's address may be another one's.
static void begin_last(struct as_python_last *last, const struct as_recorder_thread *thread, uintptr_t state)
{
    if (__builtin_expect(as_python_is_current(last) && last->state == state, 1))
        return;
    uint64_t since = atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed);
    uint64_t deaths = atomic_load_explicit(&as_python_deaths, memory_order_relaxed);
    last->count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    last->near = (struct as_inner_near){0};
    last->mark = as_recent_mark(thread, deaths);
    last->since = since;
    last->deaths = deaths;
    last->state = state;
}

static inline uint8_t *place_of(struct as_python_last *last, uintptr_t frame)
{
    return &last->places[(frame >> 4 ^ frame >> 12) & (AS_PYTHON_PLACES - 1)];
}

// Whether this frame and all outer ones are those of the last walk. `cframe` is the current one, 0 where there is none.
static inline bool resume(struct walking *w, uintptr_t frame, uintptr_t cframe)
{
    struct as_python_last *last = w->last;
    size_t place = last ? *place_of(last, frame) : 0;
    if (!last || place >= last->count || last->frames[place].at.frame != frame)
        return false;
    uintptr_t entry = last->frames[place].at.place;
    if (entry <= w->entry || entry < w->sp || (cframe && entry != cframe))
        return false;
    for (size_t i = place + 1; i > 0; i--)
        if (!as_python_is_same(w->l, &last->frames[i - 1].at)) {
            last->count = i - 1;
            return false;
        }
    w->same = place + 1;
    return true;
}

static void keep_walk(struct walking *w, uint64_t hash)
{
    struct as_python_last *last = w->last;
    last->count = w->same;
    atomic_signal_fence(memory_order_seq_cst);
    for (size_t i = w->count, at = w->same; i-- > 0; at++) {
        struct as_python_seen *seen = &last->frames[at];
        *seen = last->fresh[i];
        seen->at.place = seen->at.entry ? seen->at.entry : at > 0 ? last->frames[at - 1].at.place : 0;
        seen->key = seen->at.entry ? w->keys[i] ^ ENTERED : w->keys[i];
        seen->hash = hash = as_recorder_mix_in(hash, w->keys[i]);
        *place_of(last, seen->at.frame) = (uint8_t)at;
    }
    atomic_signal_fence(memory_order_seq_cst);
    last->count = w->is_plain ? w->same + w->count : 0;
}

// Returns the hash of all frames, from the outermost one on. Where nothing is new, the frames within are known, too, if they come back.
static uint64_t finish_python_walk(struct walking *w)
{
    uint64_t hash = w->last && w->same > 0 ? w->last->frames[w->same - 1].hash : 1;
    if (w->last && w->count > 0)
        keep_walk(w, hash);
    for (size_t i = w->count; i-- > 0;)
        hash = as_recorder_mix_in(hash, w->keys[i]);
    return hash;
}

// --- The chain --------------------------------------------------------------------------------------------------------

static bool is_on_stack(const struct walking *w, uintptr_t at)
{
    return at >= w->sp && at < w->end && w->end - at >= AS_PYTHON_FRAME_READ && at % sizeof(uintptr_t) == 0;
}

// The frames since the entry before were run by the C function in whose stack frame this entry is.
static bool enter(struct walking *w, uintptr_t entry, uintptr_t beyond)
{
    if (entry <= w->entry)
        return false;
    w->entry = entry;
    if (w->count > w->first && w->count < MOST_FRAMES)
        w->keys[w->count - 1] ^= ENTERED;
    w->is_plain &= w->count > w->first;
    if (w->last && w->is_plain) {
        w->last->fresh[w->count - 1].at.entry = entry;
        w->last->fresh[w->count - 1].at.beyond = beyond;
    }
    for (size_t i = w->first; w->walk && i < w->count; i++)
        w->walk->frames[i].place = entry;
    w->first = w->count;
    return true;
}

// A frame that is one too many is not taken in; where the ones before it are run is still searched for, if anybody wants to know.
static inline bool take_python_frame(struct walking *w, uintptr_t frame, bool *whole)
{
    *whole = w->count < MOST_FRAMES;
    return !*whole || add_frame(w, frame);
}

// 3.12 on: an entry is a frame on the C stack.
static bool walk_entries(struct walking *w, uintptr_t frame)
{
    bool whole = true;
    for (size_t i = 0; frame != 0; i++) {
        bool is_entry = is_on_stack(w, frame);
        if (!is_entry && resume(w, frame, 0))
            return true;
        if (i == MOST_STEPS || !is_readable_frame(w, frame) ||
            !(is_entry ? enter(w, frame, as_inner_word(frame + w->l->previous)) : take_python_frame(w, frame, &whole)))
            return false;
        if (!whole && (!w->walk || w->first == w->count))
            return true;
        frame = as_inner_word(frame + w->l->previous);
    }
    return w->first == w->count;
}

// The first _PyCFrame is in the state itself, and has no frame.
static bool is_root(uintptr_t cframe, uintptr_t state)
{
    return !as_python_is_in(&as_python.layout, state, cframe);
}

// 3.11: an entry is marked. Its place is that of its _PyCFrame.
static bool walk_marked(struct walking *w, uintptr_t cframe, uintptr_t state)
{
    bool whole = true;
    uintptr_t frame = as_inner_word(cframe + w->l->cframe_current);
    for (size_t i = 0; i < MOST_STEPS && !is_root(cframe, state); i++) {
        if (resume(w, frame, cframe))
            return true;
        if (!is_readable_frame(w, frame) || !take_python_frame(w, frame, &whole))
            return false;
        bool is_entry = *(const uint8_t *)(frame + w->l->is_entry);
        frame = as_inner_word(frame + w->l->previous);
        if (is_entry) {
            uintptr_t before = as_inner_word(cframe + w->l->cframe_previous);
            if (!enter(w, cframe, before) || (!is_on_stack(w, before) && !is_root(before, state)) ||
                before % sizeof(uintptr_t) != 0 || !as_inner_readable(before, AS_PYTHON_CFRAME_READ) ||
                as_inner_word(before + w->l->cframe_current) != frame)
                return false;
            cframe = before;
        }
        if (!whole && (!w->walk || w->first == w->count))
            return true;
    }
    return is_root(cframe, state) && frame == 0;
}

// Whether the thread runs functions of Python: then CPython is there. Else it may be unloaded at any time. *own false: the state is not its
// own.
static bool is_inside(uintptr_t state, bool *own)
{
    const struct as_python_layout *l = &as_python.layout;
    *own = true;
    if (as_python_may_lose(state))
        return as_python_is_known_in(state);
    *own = as_python_is_own_state(state);
    return *own && as_python_is_in(l, state, as_inner_word(state + (l->cframe ? l->cframe : l->current)));
}

static bool walk_chain(struct walking *w, uintptr_t state)
{
    const struct as_python_layout *l = w->l;
    if (!l->cframe)
        return walk_entries(w, as_inner_word(state + l->current));
    uintptr_t cframe = as_inner_word(state + l->cframe);
    return l->is_entry ? walk_marked(w, cframe, state) : walk_entries(w, as_inner_word(cframe + l->cframe_current));
}

// False: there are more frames than `last` has room for, or than are taken in.
static bool is_kept_whole(const struct walking *w)
{
    return w->same + w->count < MOST_FRAMES;
}

static void begin_again(struct walking *w)
{
    w->last->count = 0;
    w->last = NULL;
    w->near = (struct as_inner_near){0};
    w->entry = w->count = w->first = w->same = 0;
}

bool as_python_walk(const struct as_recorder_thread *thread, uintptr_t sp, struct as_inner_walk *walk, uint64_t *hash)
{
    *hash = 0;
    as_inner_walk_begin(walk, AS_PROFILE_PYTHON);
    if (as_python.stays && !as_python_is_initialized())
        return true;
    uintptr_t state = as_python_state();
    bool own = true;
    if (state == 0 || !is_inside(state, &own))
        return own;
    struct walking w = {.l = &as_python.layout,
                        .thread = thread,
                        .walk = walk,
                        .sp = sp,
                        .end = thread->high,
                        .is_plain = true,
                        .keys = as_recorder.scratch[thread->index].ends};
    if (w.l->cframe && !is_on_stack(&w, as_inner_word(state + w.l->cframe)))
        return false;
    if (!as_python_is_initialized())
        return true;
    w.remembers = as_python_sees_deaths();
    struct as_recorder_last *last = walk || !w.remembers ? NULL : thread->before;
    if (last) {
        begin_last(&last->python, thread, state);
        w.last = &last->python;
    }
    if (!walk_chain(&w, state))
        return false;
    if (w.last && !is_kept_whole(&w)) {
        begin_again(&w);
        if (!walk_chain(&w, state))
            return false;
    }
    if (w.same + w.count > 0)
        *hash = finish_python_walk(&w);
    if (w.last && w.is_plain)
        w.last->depth = w.same + w.count;
    if (walk) {
        walk->count = w.first; // the place of what is behind is not known
        walk->cut = w.count == MOST_FRAMES;
    }
    return true;
}

bool as_python_walk_again(const struct as_recorder_thread *thread, struct as_inner_walk *walk)
{
    const struct as_python_last *last = thread->before ? &thread->before->python : NULL;
    if (!last || last->depth == 0 || !atomic_load_explicit(&as_python.found, memory_order_acquire))
        return false;
    as_inner_walk_begin(walk, AS_PROFILE_PYTHON);
    for (size_t i = 0; i < last->depth; i++) {
        const struct as_python_seen *seen = &last->frames[last->depth - 1 - i];
        uintptr_t code = code_of(&as_python.layout, seen->at.frame);
        if (!write_frame(&walk->frames[i], code, instruction_of(&as_python.layout, seen->at.frame, code), seen->key))
            return false;
        walk->frames[i].place = seen->at.place;
    }
    walk->count = last->depth;
    return true;
}
