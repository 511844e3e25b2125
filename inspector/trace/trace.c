// SPDX-License-Identifier: MIT
#include "trace/trace.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_FRAMES = 256,
    MOST_MODULES = 0x7ffe, // the upper bit of an index is free (profile/tables.h)
    PAYLOAD = AS_TRACE_MOST_BYTES - sizeof(struct as_trace_block),
};

static bool read_at(const struct as_trace *r, void *buffer, size_t size, uint64_t offset)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = pread(r->file, (char *)buffer + got, size - got, (off_t)(offset + got));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

// --- What blocks hold -------------------------------------------------------------------------------------------------

static bool contradicts(struct as_error *err, uint64_t offset, const char *what)
{
    return as_fail(err, AS_BAD_INPUT, "the block at byte %llu of the record holds %s", (unsigned long long)offset,
                   what);
}

static bool take_modules(struct as_trace *r, const uint64_t *payload, uint32_t size, uint64_t at, struct as_error *err)
{
    for (uint32_t i = 0; i < size / sizeof(struct as_trace_module); i++) {
        struct as_trace_module *m = as_vec_add(&r->modules, err);
        if (!m)
            return false;
        memcpy(m, (const char *)payload + i * sizeof *m, sizeof *m);
        m->name[sizeof m->name - 1] = '\0';
        if (m->index != r->modules.count - 1 || m->index >= MOST_MODULES || m->build_id_size > sizeof m->build_id)
            return contradicts(err, at, "a module out of order");
    }
    return true;
}

// --- Stacks and contexts ---------------------------------------------------------------------------------------------

static uint32_t next_context(const struct as_trace *r)
{
    return (uint32_t)r->contexts.count + AS_TRACE_FIRST_CONTEXT;
}

static bool make_room(struct as_trace *r, uint32_t stacks, uint64_t at, struct as_error *err)
{
    if (next_context(r) >> AS_TRACE_CONTEXT_BITS || r->stacks.count + stacks > UINT32_MAX)
        return contradicts(err, at, "more stacks than events can name");
    return as_vec_reserve(&r->contexts, 1, err) && as_vec_reserve(&r->stacks, stacks, err);
}

// The number of the stack of this frame and its caller's stack.
static uint32_t add_stack(struct as_trace *r, uint64_t frame, uint32_t caller)
{
    uint32_t depth = caller ? as_trace_stack(r, caller)->depth + 1 : 1;
    r->stacks.items[r->stacks.count++] = (struct as_trace_stack){.frame = frame, .caller = caller, .depth = depth};
    return (uint32_t)r->stacks.count;
}

static void add_context(struct as_trace *r, uint32_t stack, uint64_t word)
{
    r->contexts.items[r->contexts.count++] =
        (struct as_trace_context){.stack = stack, .complete = word & AS_TRACE_COMPLETE};
}

// Whether the words from `i` on begin with a context that may be there: all that it names is before it. (Without frames, it is not known.)
static bool is_context(const struct as_trace *r, const uint64_t *payload, uint32_t words, uint32_t i)
{
    uint32_t caller = (uint32_t)payload[i], count = payload[i] >> 32 & 0xffff;
    if (caller > r->stacks.count || count >= words - i)
        return false;
    return count + (caller ? as_trace_stack(r, caller)->depth : 0) <= MOST_FRAMES;
}

// Each context has the frames that are new, outermost first.
static bool take_stacks(struct as_trace *r, const uint64_t *payload, uint32_t words, uint64_t at, struct as_error *err)
{
    if (words == 0 || payload[0] != as_trace_stacks_word(next_context(r), (uint32_t)r->stacks.count + 1))
        return contradicts(err, at, "stacks out of order");
    for (uint32_t i = 1; i < words;) {
        uint32_t stack = (uint32_t)payload[i], count = payload[i] >> 32 & 0xffff;
        if (!is_context(r, payload, words, i))
            return contradicts(err, at, "a stack that there cannot be");
        if (!make_room(r, count, at, err))
            return false;
        for (uint32_t k = 1; k <= count; k++)
            stack = add_stack(r, payload[i + k], stack);
        add_context(r, stack, payload[i]);
        i += count + 1;
    }
    return true;
}

// --- Interpreters ----------------------------------------------------------------------------------------------------

// Adds a text, up to its first NUL. *at: where it is; 0: it is empty.
static bool add_text(struct as_trace *r, const char *text, size_t length, uint64_t *at, struct as_error *err)
{
    length = strnlen(text, length);
    if (!as_vec_reserve(&r->texts, length + 2, err))
        return false;
    r->texts.count += r->texts.count == 0; // the empty text
    *at = length > 0 ? r->texts.count : 0;
    memcpy(r->texts.items + r->texts.count, text, length);
    r->texts.items[r->texts.count + length] = '\0';
    r->texts.count += length > 0 ? length + 1 : 0;
    return true;
}

static bool take_functions(struct as_trace *r, const uint64_t *payload, uint32_t words, uint64_t at,
                           struct as_error *err)
{
    for (uint32_t i = 0; i < words;) {
        uint32_t index = (uint32_t)payload[i], name = payload[i] >> 32 & 0xffff, file = (uint32_t)(payload[i] >> 48);
        uint32_t length = (name + file + 7) / 8;
        const char *text = (const char *)(payload + i + 1);
        if (index >= AS_TRACE_MOST_FUNCTIONS || length >= words - i)
            return contradicts(err, at, "a function that does not fit");
        while (r->functions.count <= index) {
            struct as_trace_function *next = as_vec_add(&r->functions, err);
            if (!next)
                return false;
        }
        struct as_trace_function *f = &r->functions.items[index];
        if (!add_text(r, text, name, &f->name, err) || !add_text(r, text + name, file, &f->file, err))
            return false;
        i += 1 + length;
    }
    return true;
}

static bool add_interpreter(struct as_trace *r, uint32_t language, uint32_t release, uint64_t at, struct as_error *err)
{
    for (size_t i = 0; i < r->interpreters.count; i++)
        if (r->interpreters.items[i].language == language && r->interpreters.items[i].release == release)
            return true;
    if (release == 0)
        return true;
    if (release > UINT16_MAX || r->interpreters.count == AS_TRACE_MOST_INTERPRETERS)
        return contradicts(err, at, "interpreters that no process has");
    return as_vec_push(&r->interpreters, err, (struct as_trace_interpreter){.language = language, .release = release});
}

static bool take_interpreters(struct as_trace *r, const uint64_t *payload, uint32_t size, uint64_t at,
                              struct as_error *err)
{
    const struct as_trace_interpreters *now = (const void *)payload;
    if (size < sizeof *now)
        return true;
    return add_interpreter(r, AS_TRACE_PYTHON, now->python, at, err) &&
           add_interpreter(r, AS_TRACE_RUBY, now->ruby, at, err);
}

// --- Blocks ----------------------------------------------------------------------------------------------------------

static bool take_events(struct as_trace *r, const struct as_trace_block *b, uint64_t at, struct as_error *err)
{
    if (b->thread >= AS_TRACE_MOST_THREADS)
        return contradicts(err, at, "events of no thread");
    if (!as_vec_push(&r->places, err,
                     (struct as_trace_place){.offset = at + sizeof *b, .words = b->size / (uint32_t)sizeof(uint64_t)}))
        return false;
    struct as_trace_thread *t = &r->threads[b->thread];
    uint32_t index = (uint32_t)r->places.count;
    if (t->last)
        r->places.items[t->last - 1].next = index;
    else
        t->first = index;
    t->last = index;
    return true;
}

static bool take_losses(struct as_trace *r, const uint64_t *payload, uint32_t size, uint64_t at, struct as_error *err)
{
    const struct as_trace_loss *losses = (const void *)payload;
    for (uint32_t i = 0; i < size / sizeof *losses; i++) {
        if (losses[i].thread >= AS_TRACE_MOST_THREADS)
            return contradicts(err, at, "a loss of no thread");
        r->threads[losses[i].thread].lost_allocations = losses[i].allocations;
        r->threads[losses[i].thread].lost_frees = losses[i].frees;
    }
    return true;
}

static bool take_block(struct as_trace *r, const struct as_trace_block *b, const uint64_t *payload, uint64_t at,
                       struct as_error *err)
{
    switch (b->kind) {
    case AS_TRACE_MODULES:
        return take_modules(r, payload, b->size, at, err);
    case AS_TRACE_STACKS:
        return take_stacks(r, payload, b->size / (uint32_t)sizeof *payload, at, err);
    case AS_TRACE_FUNCTIONS:
        return take_functions(r, payload, b->size / (uint32_t)sizeof *payload, at, err);
    case AS_TRACE_EVENTS:
        return take_events(r, b, at, err);
    case AS_TRACE_STATE:
        if (b->size >= sizeof r->last) {
            memcpy(&r->last, payload, sizeof r->last);
            r->first = r->first.monotonic ? r->first : r->last;
        }
        return true;
    case AS_TRACE_LOSSES:
        return take_losses(r, payload, b->size, at, err);
    case AS_TRACE_INTERPRETERS:
        return take_interpreters(r, payload, b->size, at, err);
    case AS_TRACE_END:
        if (b->size >= sizeof r->end)
            memcpy(&r->end, payload, sizeof r->end);
        return true;
    default: // of a later version
        return true;
    }
}

// --- The file ---------------------------------------------------------------------------------------------------------

static bool read_block(const struct as_trace *r, uint64_t at, uint64_t number, struct as_trace_block *b,
                       uint64_t *payload)
{
    return r->size - at >= sizeof *b && read_at(r, b, sizeof *b, at) && b->magic == AS_TRACE_BLOCK &&
           b->number == number && b->size <= PAYLOAD && b->size % sizeof *payload == 0 &&
           r->size - at - sizeof *b >= b->size && read_at(r, payload, b->size, at + sizeof *b) &&
           as_trace_checksum(b, payload) == b->checksum;
}

static bool read_blocks(struct as_trace *r, uint64_t *payload, const char *path, struct as_error *err)
{
    struct as_trace_block b;
    bool ok = read_block(r, 0, 0, &b, payload) && b.kind == AS_TRACE_HEAD && b.size >= sizeof r->head;
    if (ok)
        memcpy(&r->head, payload, sizeof r->head);
    if (!ok || r->head.magic != AS_TRACE_MAGIC)
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a record (arenascope run --record)", path);
    if (r->head.version != AS_TRACE_VERSION)
        return as_fail(err, AS_UNSUPPORTED, "'%s' is a record of version %u: this program reads version %d", path,
                       r->head.version, AS_TRACE_VERSION);
    r->head.program[sizeof r->head.program - 1] = '\0';
    r->whole = sizeof b + b.size;
    for (uint64_t number = 1; read_block(r, r->whole, number, &b, payload); number++) {
        if (!take_block(r, &b, payload, r->whole, err))
            return false;
        r->whole += sizeof b + b.size;
    }
    return true;
}

bool as_trace_open(struct as_trace *r, const char *path, struct as_error *err)
{
    struct stat status;
    memset(r, 0, sizeof *r);
    r->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (r->file < 0 || fstat(r->file, &status) != 0)
        return as_fail(err, errno == EACCES ? AS_DENIED : AS_NO_TARGET, "cannot open '%s': %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a regular file", path);
    r->size = (uint64_t)status.st_size;
    uint64_t *payload = as_memory_map(PAYLOAD, "a block of a record", err);
    bool ok = payload && read_blocks(r, payload, path, err);
    as_memory_unmap(payload, PAYLOAD);
    return ok;
}

void as_trace_close(struct as_trace *r)
{
    for (size_t i = 0; r->cursors && i < AS_TRACE_MOST_THREADS; i++)
        as_memory_unmap(r->cursors[i].words, PAYLOAD);
    as_memory_unmap(r->cursors, AS_TRACE_MOST_THREADS * sizeof *r->cursors);
    r->cursors = NULL;
    AS_FREE_VECS(r, places, modules, contexts, stacks, functions, interpreters, texts);
    if (r->file >= 0)
        close(r->file);
    r->file = -1;
}

uint64_t as_trace_time(const struct as_trace *r, uint64_t ticks)
{
    uint64_t since = ticks > r->first.ticks ? ticks - r->first.ticks : 0;
    if (r->head.clock == AS_TRACE_MONOTONIC)
        return since;
    if (r->last.ticks <= r->first.ticks || r->last.monotonic <= r->first.monotonic)
        return UINT64_MAX;
    double rate = (double)(r->last.monotonic - r->first.monotonic) / (double)(r->last.ticks - r->first.ticks);
    double nanoseconds = (double)since * rate;
    return nanoseconds < (double)(UINT64_C(1) << 62) ? (uint64_t)nanoseconds : UINT64_MAX; // a damaged time
}

const struct as_trace_context *as_trace_context(const struct as_trace *r, uint32_t id)
{
    if (id < AS_TRACE_FIRST_CONTEXT || id - AS_TRACE_FIRST_CONTEXT >= r->contexts.count)
        return NULL;
    return &r->contexts.items[id - AS_TRACE_FIRST_CONTEXT];
}

const struct as_trace_stack *as_trace_stack(const struct as_trace *r, uint32_t number)
{
    return &r->stacks.items[number - 1];
}

void as_trace_line(const struct as_trace *r, uint64_t frame, const char **name, const char **file, uint32_t *line)
{
    enum { INDEX_MASK = (1 << 24) - 1, LINE_MASK = (1 << AS_TRACE_LINE_BITS) - 1 };
    uint64_t index = frame >> AS_TRACE_LINE_BITS & INDEX_MASK;
    bool known = index != 0 && index < r->functions.count;
    *name = known && r->texts.count > 0 ? r->texts.items + r->functions.items[index].name : "";
    *file = known && r->texts.count > 0 ? r->texts.items + r->functions.items[index].file : "";
    *line = (uint32_t)frame & LINE_MASK;
}
