// SPDX-License-Identifier: MIT
// The control frames of a thread's own execution context. They stand while an allocation lasts: only the thread itself changes them,
// while it has the VM's lock, and while no garbage is collected. A thread without the lock, and one that collects, are not inspected:
// what a frame names may be moved or freed meanwhile. What is read may be garbage nevertheless, where a signal handler has interrupted a
// change. So each pointer is one into readable memory before it is followed, and what it leads to has the right type.
//
// The frames since the last one that is marked (FINISH) are run by one call of the bytecode loop. Its caller keeps a tag on the C stack, to
// which exceptions jump: in this function's stack frame, the frames have their place. C functions that Ruby calls have control frames, too;
// they are passed over, as the C stack has them.
#include "recorder/ruby/ruby.h"
#include "recorder/stack_memo.h"

enum {
    MOST_FRAMES = AS_RECORDER_DEPTH - 1,
    MOST_STEPS = 1 << 18, // of a walk
    MOST_STACK = 1 << 27, // words of a stack of the VM's
};
// A tag has where an exception goes on, and the tag before. Between the two is a jmp_buf, of the compiler's or of libc's.
enum { TAG_LABEL = 24, TAG_PREVIOUS = 56, TAG_READ = 64 };
#if defined(__x86_64__)
enum { LIBC_TAG_LABEL = 72, LIBC_TAG_PREVIOUS = 216, LIBC_TAG_READ = 224 };
#else
enum { LIBC_TAG_LABEL = 104, LIBC_TAG_PREVIOUS = 328, LIBC_TAG_READ = 336 };
#endif
enum { FLAG_FINISH = 0x20, FLAG_C = 0x80, KIND = 0x7fff0001, KIND_FIRST = 0x11110001, KIND_C = 0x55550001 };
#define FINISHED UINT64_C(0x5851f42d4c957f2d) // what a key is mixed with: the frame is marked
enum { KIND_C_BLOCK = 0x66660001, KIND_RESCUE = 0x78880001, KIND_DUMMY = 0x79990001, KIND_STEP = 0x11110000 };

struct ruby_walking {
    struct as_inner_walk *walk; // NULL: the hash is enough
    uintptr_t sp, end;          // of the C stack
    uintptr_t tag;              // the next one
    uintptr_t place;            // the last one on the C stack
    struct as_inner_near near;  // the last page with a control frame or an environment
    uint64_t gcs;
    size_t count;   // of frames
    size_t first;   // of those whose place is not known yet
    uint64_t *keys; // of frames
};

static inline bool is_readable(struct ruby_walking *r, uintptr_t at, uintptr_t size)
{
    return at % sizeof(uintptr_t) == 0 && as_inner_readable_near(at, size, &r->near);
}

// What a frame that is run there is recognised by.
static inline bool find_key(struct ruby_walking *r, uintptr_t iseq, uintptr_t pc, uint64_t *key)
{
    uintptr_t body;
    uint64_t identity;
    if (!as_cruby_remembers(iseq, r->gcs, &body, &identity)) {
        if (!as_cruby_identify(iseq, r->gcs, &identity))
            return false;
        body = as_inner_word(iseq + AS_CRUBY_BODY);
    }
    uintptr_t code = as_inner_word(body + AS_CRUBY_INSTRUCTIONS), at = pc - code;
    if (at > (uintptr_t)as_inner_half(body + AS_CRUBY_SIZE) * sizeof(uintptr_t) || at % sizeof(uintptr_t) != 0)
        return false;
    *key = identity + at * AS_RECORDER_FACTOR;
    if (!r->walk)
        return true;
    if (r->count == 0 && code % sizeof code == 0 && as_inner_readable(code, sizeof code))
        as_cruby_find_loop(as_inner_word(code));
    r->walk->frames[r->count] = (struct as_inner_frame){.code = iseq, .at = (int64_t)pc, .key = *key};
    return true;
}

static inline bool add_frame(struct ruby_walking *r, uintptr_t frame)
{
    return find_key(r, as_inner_word(frame + AS_CRUBY_FRAME_ISEQ), as_inner_word(frame + AS_CRUBY_FRAME_PC),
                    &r->keys[r->count]) &&
           ++r->count;
}

// --- Tags -------------------------------------------------------------------------------------------------------------

static bool is_code(uintptr_t address)
{
    return address >= as_cruby.code && address < as_cruby.code_end;
}

// libc keeps addresses mangled in a jmp_buf.
static uintptr_t of_libc(uintptr_t mangled)
{
    return as_cruby_unmangle(mangled) ^ as_cruby.secret;
}

// A tag's label, and the tag before. All tags are libruby's. False: it is none.
static bool read_tag(struct ruby_walking *r, uintptr_t tag, uintptr_t *label)
{
    *label = as_inner_word(tag + TAG_LABEL);
    r->tag = as_inner_word(tag + TAG_PREVIOUS);
    if (is_code(*label))
        return true;
    if (r->end - tag < LIBC_TAG_READ)
        return false;
    *label = of_libc(as_inner_word(tag + LIBC_TAG_LABEL));
    r->tag = as_inner_word(tag + LIBC_TAG_PREVIOUS);
    return is_code(*label);
}

// The tag of the next call of the bytecode loop, outwards; 0: there is none. False: it is not what it should be.
static bool next_tag(struct ruby_walking *r, uintptr_t *tag)
{
    for (size_t i = 0; (*tag = r->tag) != 0; i++) {
        if (i == MOST_STEPS || *tag <= r->place || *tag < r->sp || *tag >= r->end || r->end - *tag < TAG_READ ||
            *tag % sizeof(uintptr_t) != 0)
            return false;
        uintptr_t label;
        r->place = *tag;
        if (!read_tag(r, *tag, &label))
            return false;
        if (as_cruby_is_exec(label))
            return true;
    }
    return true;
}

// The frames since the one before were run by one call of the bytecode loop.
static bool finish_ruby_walk(struct ruby_walking *r)
{
    uintptr_t tag;
    if (r->walk && (!next_tag(r, &tag) || tag == 0))
        return false;
    for (size_t i = r->first; r->walk && i < r->count; i++)
        r->walk->frames[i].place = tag;
    r->first = r->count;
    return true;
}

// No call of the bytecode loop is left, of which no frame is known.
static bool has_ended(struct ruby_walking *r)
{
    uintptr_t tag = 0;
    return !r->walk || (next_tag(r, &tag) && tag == 0);
}

// The place of what is behind the last marked frame is not known.
static void complete(const struct ruby_walking *r, struct as_inner_walk *walk)
{
    walk->count = r->first;
    walk->cut = r->count == MOST_FRAMES;
    walk->loop = atomic_load(&as_cruby.loop);
    walk->loop_end = atomic_load(&as_cruby.loop_end);
}

// --- Control frames ---------------------------------------------------------------------------------------------------

static bool is_kind(uint64_t kind)
{
    return (kind >= KIND_FIRST && kind <= KIND_C_BLOCK + KIND_STEP && (kind - KIND_FIRST) % KIND_STEP == 0) ||
           kind == KIND_RESCUE;
}

static bool is_of_c(uint64_t kind)
{
    return kind == KIND_C || kind == KIND_C_BLOCK;
}

// The flags of a control frame. False: they are not what they should be.
static inline bool read_flags(struct ruby_walking *r, uintptr_t frame, uint64_t *flags)
{
    uintptr_t environment = as_inner_word(frame + AS_CRUBY_FRAME_ENVIRONMENT);
    if (!is_readable(r, environment, sizeof *flags))
        return false;
    *flags = as_inner_word(environment);
    uint64_t kind = *flags & KIND;
    if (kind == KIND_DUMMY) // the outermost one; the main thread's says that it is Ruby's
        *flags |= FLAG_C;
    return kind == KIND_DUMMY || (is_kind(kind) && is_of_c(kind) == ((*flags & FLAG_C) != 0));
}

// A frame that is one too many is not taken in; where the ones before it are run is still searched for, if anybody wants to know.
static bool walk_frames(struct ruby_walking *r, uintptr_t frame, uintptr_t end)
{
    uint64_t flags;
    const size_t size = as_cruby.layout.frame_size;
    bool whole = true, open = false; // of the bytecode loop's call
    for (size_t i = 0; frame < end; i++, frame += size) {
        if (i == MOST_STEPS || !is_readable(r, frame, AS_CRUBY_FRAME_READ) || !read_flags(r, frame, &flags))
            return false;
        if (flags & FLAG_C) {
            if (open)
                return false;
            continue;
        }
        whole &= r->count < MOST_FRAMES;
        if (whole && !add_frame(r, frame))
            return false;
        open = !(flags & FLAG_FINISH);
        if (whole && !open)
            r->keys[r->count - 1] ^= FINISHED;
        if (!open && !finish_ruby_walk(r))
            return false;
        if (!whole && (!r->walk || r->first == r->count))
            return true;
    }
    return !open && has_ended(r);
}

// Returns the hash of all frames, from the outermost one on.
static uint64_t hash_of(const struct ruby_walking *r)
{
    uint64_t hash = 1;
    for (size_t i = r->count; i-- > 0;)
        hash = as_recorder_mix_in(hash, r->keys[i]);
    return hash;
}

// --- The last walk ----------------------------------------------------------------------------------------------------

// Nothing is readable for ever, and an iseq's address may be another one's after a garbage collection.
static void begin_last(struct as_cruby_last *last, uint64_t gcs, uintptr_t end)
{
    if (__builtin_expect(as_cruby_is_current(last, gcs, end), 1))
        return;
    uint64_t since = atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed);
    last->count = last->filled = 0;
    atomic_signal_fence(memory_order_seq_cst);
    last->since = since;
    last->gcs = gcs;
    last->end = end;
}

// False: it is not what it should be.
static bool match_at(struct ruby_walking *r, struct as_cruby_last *last, uintptr_t frame, size_t i)
{
    struct as_cruby_seen *seen = &last->frames[i];
    uint64_t flags;
    if (!is_readable(r, frame, AS_CRUBY_FRAME_READ) || !read_flags(r, frame, &flags))
        return false;
    uintptr_t pc = as_inner_word(frame + AS_CRUBY_FRAME_PC);
    last->pcs[i] = UINTPTR_MAX; // no frame is the same until all is there
    atomic_signal_fence(memory_order_seq_cst);
    seen->environment = as_inner_word(frame + AS_CRUBY_FRAME_ENVIRONMENT);
    seen->flags = as_inner_word(seen->environment);
    seen->of_c = flags & FLAG_C;
    if (!seen->of_c && !find_key(r, as_inner_word(frame + AS_CRUBY_FRAME_ISEQ), pc, &seen->key))
        return false;
    atomic_signal_fence(memory_order_seq_cst);
    last->pcs[i] = pc;
    return true;
}

// Behind the frame that has called it; NULL: it is the first.
static bool put_behind(struct as_cruby_seen *seen, const struct as_cruby_seen *outer)
{
    bool finishes = seen->flags & FLAG_FINISH;
    seen->hash = outer ? outer->hash : 1;
    seen->rubies = outer ? outer->rubies : 0;
    if (seen->of_c)
        return true;
    seen->rubies++;
    seen->hash = as_recorder_mix_in(seen->hash, finishes ? seen->key ^ FINISHED : seen->key);
    return finishes || (outer && !outer->of_c); // else no frame of its call of the bytecode loop is marked
}

static bool take_frame(struct ruby_walking *r, struct as_cruby_last *last, size_t i)
{
    struct as_cruby_seen *seen = &last->frames[i];
    uintptr_t frame = last->end - (i + 1) * as_cruby.layout.frame_size;
    if (i >= last->filled || !as_cruby_is_same(as_cruby_words_of(last, i), frame)) {
        if (!match_at(r, last, frame, i))
            return false;
        last->filled = i < last->filled ? last->filled : i + 1;
    }
    return put_behind(seen, i > 0 ? seen - 1 : NULL);
}

// The last walk's frames are those of this one from now on, of which the first `same` are the last one's. False: one is not what it
// should be.
static bool take_frames(struct ruby_walking *r, struct as_cruby_last *last, size_t same, size_t count)
{
    if (same == count)
        return true;
    last->count = same;
    atomic_signal_fence(memory_order_seq_cst);
    for (size_t i = same; i < count; i++)
        if (!take_frame(r, last, i))
            return false;
    atomic_signal_fence(memory_order_seq_cst);
    last->count = count;
    return true;
}

bool as_cruby_walk_outer(struct as_cruby_last *last, size_t same, uintptr_t until)
{
    const size_t size = as_cruby.layout.frame_size, count = (last->end - until) / size;
    struct ruby_walking r = {.gcs = last->gcs};
    last->depth = 0;
    return last->end - count * size == until && count <= AS_CRUBY_SEEN && take_frames(&r, last, same, count);
}

// As walk_frames(), from the outermost frame on. *known false: there are too many frames for it.
static bool walk_known(struct ruby_walking *r, struct as_cruby_last *last, uintptr_t frame, uintptr_t end, size_t same,
                       uint64_t *hash, bool *known)
{
    const size_t count = (end - frame) / as_cruby.layout.frame_size;
    *known = count <= AS_CRUBY_SEEN;
    if (!*known)
        return false;
    begin_last(last, r->gcs, end);
    if (!take_frames(r, last, as_cruby_count_same(last, frame, same), count))
        return false;
    const struct as_cruby_seen *top = count > 0 ? &last->frames[count - 1] : NULL;
    *known = !top || top->rubies <= MOST_FRAMES;
    last->depth = *known ? count : 0;
    *hash = top && top->rubies > 0 ? top->hash : 0;
    return *known;
}

bool as_cruby_walk(const struct as_recorder_thread *thread, uintptr_t sp, uintptr_t end, size_t same,
                   struct as_inner_walk *walk, uint64_t *hash)
{
    *hash = 0;
    as_inner_walk_begin(walk, AS_PROFILE_RUBY);
    struct as_recorder_last *last = walk ? NULL : thread->before;
    struct as_cruby_context own;
    uintptr_t context = !last ? 0 : same > 0 ? last->ruby.own.context : as_cruby_own_context_again(&last->ruby.own);
    if (context != 0)
        own = last->ruby.own;
    else if ((context = as_cruby_own_context(&own)) == 0)
        return true;
    uintptr_t stack = as_inner_word(context + AS_CRUBY_STACK), size = as_inner_word(context + AS_CRUBY_STACK_SIZE);
    uintptr_t frame = as_inner_word(context + AS_CRUBY_CURRENT);
    struct ruby_walking r = {.walk = walk,
                             .sp = sp,
                             .end = end,
                             .tag = as_inner_word(context + AS_CRUBY_TAG),
                             .gcs = as_cruby_gc_count(&own),
                             .keys = as_recorder.scratch[thread->index].ends};
    if (stack == 0 && frame == 0) // it ends
        return true;
    uintptr_t stack_end = stack + size * sizeof(uintptr_t);
    if (size > MOST_STACK || frame <= stack || frame > stack_end || (stack_end - frame) % as_cruby.layout.frame_size)
        return false;
    bool known = false;
    bool ok = last && walk_known(&r, &last->ruby, frame, stack_end, same, hash, &known);
    if (ok) {
        last->ruby.own = own;
        last->ruby.own.since = last->ruby.since;
    }
    if (known)
        return ok;
    if (!walk_frames(&r, frame, stack_end))
        return false;
    if (r.count > 0)
        *hash = hash_of(&r);
    if (walk)
        complete(&r, walk);
    return true;
}

bool as_cruby_walk_again(const struct as_recorder_thread *thread, uintptr_t sp, struct as_inner_walk *walk)
{
    const struct as_cruby_last *last = thread->before ? &thread->before->ruby : NULL;
    if (!last || last->depth == 0 || atomic_load(&as_cruby.loop) == 0)
        return false;
    as_inner_walk_begin(walk, AS_PROFILE_RUBY);
    struct ruby_walking r = {
        .walk = walk, .sp = sp, .end = thread->high, .tag = as_inner_word(last->own.context + AS_CRUBY_TAG)};
    for (size_t i = last->depth; i-- > 0;) {
        const struct as_cruby_seen *seen = &last->frames[i];
        if (seen->of_c)
            continue;
        uintptr_t frame = last->end - (i + 1) * as_cruby.layout.frame_size;
        walk->frames[r.count++] = (struct as_inner_frame){
            .code = as_inner_word(frame + AS_CRUBY_FRAME_ISEQ), .at = (int64_t)last->pcs[i], .key = seen->key};
        if ((seen->flags & FLAG_FINISH) && !finish_ruby_walk(&r))
            return false;
    }
    complete(&r, walk);
    return has_ended(&r);
}
