// SPDX-License-Identifier: MIT
// The events of all threads by their times: each thread has its blocks in order, and the least of their next events is the next.
#include "base/memory.h"
#include "trace/trace.h"

#include <unistd.h>

enum { PAYLOAD = AS_TRACE_MOST_BYTES - sizeof(struct as_trace_block) };

static uint32_t words_of(uint32_t kind)
{
    return kind == AS_TRACE_FREE || kind == AS_TRACE_MOVED_FROM ? 1 : kind == AS_TRACE_ALIGNED ? 3 : 2;
}

static bool load_block(const struct as_trace *r, struct as_trace_cursor *c, struct as_error *err)
{
    const struct as_trace_place *p = &r->places.items[c->next - 1];
    size_t size = p->words * sizeof *c->words;
    if (!c->words && !(c->words = as_memory_map(PAYLOAD, "the events of a thread", err)))
        return false;
    if (pread(r->file, c->words, size, (off_t)p->offset) != (ssize_t)size)
        return as_fail(err, AS_BAD_INPUT, "the record has become shorter while it was read");
    c->at = 0;
    c->count = p->words;
    c->next = p->next;
    return true;
}

// The cursor's next event. *more false: it has no more.
static bool step(struct as_trace *r, struct as_trace_cursor *c, bool *more, struct as_error *err)
{
    for (;;) {
        if (c->at == c->count) {
            *more = c->next != 0;
            if (!*more)
                return true;
            if (!load_block(r, c, err))
                return false;
            continue;
        }
        uint64_t word = c->words[c->at];
        uint32_t kind = word & ((1U << AS_TRACE_KIND_BITS) - 1);
        if (kind == AS_TRACE_TIME) {
            c->time = word >> AS_TRACE_KIND_BITS;
            c->at++;
            continue;
        }
        uint32_t words = words_of(kind);
        if (words > c->count - c->at) {
            r->malformed++;
            c->at = c->count;
            continue;
        }
        c->time += word >> AS_TRACE_KIND_BITS & AS_TRACE_MOST_DELTA;
        c->event.time = c->time;
        c->event.kind = kind;
        c->event.address = word >> AS_TRACE_ADDRESS_SHIFT << 4;
        c->event.context = words > 1 ? c->words[c->at + 1] & ((1U << AS_TRACE_CONTEXT_BITS) - 1) : 0;
        c->event.size = words > 1 ? c->words[c->at + 1] >> AS_TRACE_CONTEXT_BITS : 0;
        c->event.alignment = words > 2 ? c->words[c->at + 2] : 0;
        c->at += words;
        *more = true;
        return true;
    }
}

// At the same time, which a coarse clock has: the end of a block before the beginning of another.
static bool comes_before(const struct as_trace_event *a, const struct as_trace_event *b)
{
    uint32_t a_words = words_of(a->kind), b_words = words_of(b->kind);
    if (a->time != b->time)
        return a->time < b->time;
    return (a_words > 1) != (b_words > 1) ? a_words < b_words : a->thread < b->thread;
}

static void sink(struct as_trace *r, size_t at)
{
    struct as_trace_cursor moving = r->cursors[at];
    for (size_t below; (below = 2 * at + 1) < r->cursor_count; at = below) {
        if (below + 1 < r->cursor_count && comes_before(&r->cursors[below + 1].event, &r->cursors[below].event))
            below++;
        if (!comes_before(&r->cursors[below].event, &moving.event))
            break;
        r->cursors[at] = r->cursors[below];
    }
    r->cursors[at] = moving;
}

// Its memory goes to the place behind the heap's last one, where as_trace_close finds it.
static void drop_first(struct as_trace *r)
{
    struct as_trace_cursor done = r->cursors[0];
    r->cursors[0] = r->cursors[--r->cursor_count];
    r->cursors[r->cursor_count] = done;
}

bool as_trace_begin(struct as_trace *r, struct as_error *err)
{
    r->cursors = as_memory_map(AS_TRACE_MOST_THREADS * sizeof *r->cursors, "the threads of a record", err);
    if (!r->cursors)
        return false;
    for (uint32_t i = 0; i < AS_TRACE_MOST_THREADS; i++) {
        bool more;
        if (!r->threads[i].first)
            continue;
        struct as_trace_cursor *c = &r->cursors[r->cursor_count];
        c->next = r->threads[i].first;
        c->event.thread = i;
        c->time = 0; // of a thread without events
        if (!step(r, c, &more, err))
            return false;
        r->cursor_count += more;
    }
    for (size_t i = r->cursor_count; i > 0; i--)
        sink(r, i - 1);
    return true;
}

bool as_trace_next(struct as_trace *r, struct as_trace_event *event, struct as_error *err)
{
    bool more;
    if (r->cursor_count == 0)
        return false;
    *event = r->cursors[0].event;
    if (!step(r, &r->cursors[0], &more, err)) {
        r->cursor_count = 0;
        return false;
    }
    if (!more)
        drop_first(r);
    if (r->cursor_count > 0)
        sink(r, 0);
    return true;
}
