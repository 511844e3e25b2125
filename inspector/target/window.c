// SPDX-License-Identifier: MIT
#include "target/window.h"
#include "target/read_ahead.h"
#include "target/target.h"

#include <sys/mman.h>
#include <unistd.h>

// A chunk's header may straddle the end of what was read: so much is read again with the next part.
enum { OVERLAP = 256 };

// Where the way leads far beyond what was read, chunks are so large that their insides cost more than a system call for each
// header: then little is read at a time, and more again as long as the way is straight.
enum { FAR = 32 * 1024, LEAST = 4096, GROWTH = 4 };

#ifndef AS_AGENT
static _Atomic(uint8_t *) kept; // one that no window has
static bool keeping;

void as_windows_keep(void)
{
    keeping = true;
}

static uint8_t *take_kept(void)
{
    return atomic_exchange(&kept, NULL);
}

// False: it is not kept. A process that we fork gets an empty one: else each page that is written to meanwhile would be copied.
static bool keep(uint8_t *buffer)
{
    uint8_t *none = NULL;
    return keeping && madvise(buffer, AS_WINDOW_BYTES, MADV_WIPEONFORK) == 0 &&
           atomic_compare_exchange_strong(&kept, &none, buffer);
}
#else // it leaves no memory behind in a process that is not its own
static uint8_t *take_kept(void)
{
    return NULL;
}

static bool keep(uint8_t *buffer)
{
    (void)buffer;
    return false;
}
#endif

bool as_window_open(struct as_window *w, struct as_target *t, struct as_error *err)
{
    // To ask for the number of processors takes libc some system calls.
    long processors = t->kind == AS_TARGET_PROCESS ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    *w = (struct as_window){.target = t, .processors = processors, .limit = UINT64_MAX};
    w->buffer = take_kept();
    if (w->buffer)
        return true;
    void *buffer = mmap(NULL, AS_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return as_fail_errno(err, AS_NO_MEMORY, "no memory for a window of %d bytes", AS_WINDOW_BYTES);
    w->buffer = buffer;
    return true;
}

void as_window_close(struct as_window *w)
{
    as_read_ahead_end(w->ahead);
    if (w->buffer && !keep(w->buffer))
        munmap(w->buffer, AS_WINDOW_BYTES);
    *w = (struct as_window){0};
}

static bool may_read_ahead(const struct as_window *w)
{
    long threads = w->busy ? (long)atomic_load_explicit(w->busy, memory_order_relaxed) : 1;
    return w->processors > threads;
}

// How much to read at `address`.
static size_t next_step(const struct as_window *w, uint64_t address)
{
    uint64_t end = w->address + w->length;
    if (w->length == 0)
        return AS_WINDOW_BYTES;
    if (address < w->address || (address > end && address - end >= FAR))
        return LEAST;
    return w->step < AS_WINDOW_BYTES / GROWTH ? w->step * GROWTH : AS_WINDOW_BYTES;
}

bool as_window_move(struct as_window *w, uint64_t address, size_t need)
{
    // The next chunk's header lies at the window's end, or as far beyond as the last chunk is long.
    uint64_t end_before = w->address + w->length;
    size_t step = next_step(w, address);
    bool straight = step == AS_WINDOW_BYTES && w->length > 0 && address + OVERLAP > end_before;
    w->address = address;
    w->length = 0;
    if (address >= w->limit || w->limit - address < need || need > AS_WINDOW_BYTES)
        return false;
    struct as_target *t = w->target;
    size_t room = w->limit - address < AS_WINDOW_BYTES ? (size_t)(w->limit - address) : AS_WINDOW_BYTES;
    if (t->ops->memory.in_place) {
        size_t length = room;
        const void *bytes = t->ops->memory.in_place(t, address, &length);
        if (bytes && length >= need) {
            w->bytes = bytes;
            w->length = length;
            return true;
        }
    }
    w->step = step;
    step = step > need ? step : need;
    room = room < step ? room : step;
    if (!w->ahead || !as_read_ahead_take(w->ahead, address, need, &w->buffer, &w->address, &w->length)) {
        // One step after another shows that the way is straight, and worth a thread.
        if (!w->ahead && straight && may_read_ahead(w))
            w->ahead = as_read_ahead_start(t);
        w->length = as_target_read_resident(t, address, w->buffer, room);
        straight = straight && w->length == room;
    }
    w->bytes = w->buffer;
    w->bytes_read += w->length;
    uint64_t end = w->address + w->length;
    if (w->ahead && straight && end < w->limit && w->length > OVERLAP) {
        uint64_t from = end - OVERLAP;
        as_read_ahead_ask(w->ahead, from, w->limit - from < AS_WINDOW_BYTES ? w->limit - from : AS_WINDOW_BYTES);
    }
    return w->address + w->length - address >= need;
}
