// SPDX-License-Identifier: MIT
// The buffers of a trace: as many as there will ever be are reserved at once, and take memory when they are used. A thread fills one
// after another, and the writer's thread gives them back. The last one given back is taken first: it is in the processor's cache.
// No lock is taken, and nobody waits for a buffer: an event without one is lost, and counted. When all have been used, the writer's thread
// takes back those of threads that have been idle.
#include "recorder/trace_events.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BYTES = AS_TRACE_MOST_BYTES,
    WORDS = (BYTES - sizeof(struct as_trace_block)) / sizeof(uint64_t),
    ENOUGH = 8,          // full buffers, for which the writer's thread is woken
    WHOLE_PAGES = 65536, // of any processor's
};
_Static_assert(sizeof(struct as_recorder_buffer) <= sizeof(struct as_trace_block), "a buffer is a block at most");

static struct {
    _Atomic uint64_t spare; // the first one's index + 1, and above it how often the list has been changed
    _Atomic uint32_t full;  // the last one's index + 1
    _Atomic uint32_t count; // of full ones, since the writer inspected
    _Atomic uint32_t asleep;
    _Atomic uint32_t touched; // so many have been used
} lists;

struct as_recorder_buffer *as_recorder_buffer_at(uint32_t next)
{
    return next ? (void *)(as_recorder.buffers + (uint64_t)(next - 1) * BYTES) : NULL;
}

static uint32_t next_of(const struct as_recorder_buffer *buffer)
{
    return (uint32_t)(((uintptr_t)buffer - (uintptr_t)as_recorder.buffers) / BYTES) + 1;
}

void as_recorder_buffer_done(struct as_recorder_buffer *buffer)
{
    uint64_t first = atomic_load(&lists.spare);
    do {
        atomic_store_explicit(&buffer->next, (uint32_t)first, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&lists.spare, &first, ((first >> 32) + 1) << 32 | next_of(buffer)));
}

void as_recorder_buffers_wake(void)
{
    int saved = errno;
    if (atomic_exchange(&lists.asleep, 0) == 1)
        syscall(SYS_futex, &lists.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

void as_recorder_buffers_wait(uint64_t nanoseconds)
{
    const struct timespec time = as_time_of(nanoseconds);
    atomic_store(&lists.asleep, 1);
    if (atomic_load(&lists.count) < ENOUGH)
        syscall(SYS_futex, &lists.asleep, FUTEX_WAIT_PRIVATE, 1, &time, NULL, 0);
    atomic_store(&lists.asleep, 0);
}

// One that was given back, else one that nobody has used yet.
static struct as_recorder_buffer *take_buffer(void)
{
    uint64_t first = atomic_load(&lists.spare);
    while ((uint32_t)first != 0) {
        struct as_recorder_buffer *buffer = as_recorder_buffer_at((uint32_t)first);
        uint32_t next = atomic_load_explicit(&buffer->next, memory_order_relaxed);
        if (atomic_compare_exchange_weak(&lists.spare, &first, ((first >> 32) + 1) << 32 | next))
            return buffer;
    }
    uint32_t index = atomic_load_explicit(&lists.touched, memory_order_relaxed);
    while (index < as_recorder.buffer_count)
        if (atomic_compare_exchange_weak(&lists.touched, &index, index + 1))
            return as_recorder_buffer_at(index + 1);
    if (atomic_load_explicit(&lists.full, memory_order_relaxed) != 0 && atomic_load(&lists.asleep))
        as_recorder_buffers_wake();
    return NULL;
}

static void hand_over(struct as_recorder_thread *t, struct as_recorder_buffer *buffer)
{
    buffer->filled = (uint32_t)(atomic_load_explicit(&t->at, memory_order_relaxed) - buffer->words);
    uint32_t first = atomic_load(&lists.full);
    do {
        atomic_store_explicit(&buffer->next, first, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&lists.full, &first, next_of(buffer)));
    if (atomic_fetch_add(&lists.count, 1) + 1 >= ENOUGH && atomic_load(&lists.asleep))
        as_recorder_buffers_wake();
}

// A child of _Fork(), in which no handler of fork() has run: libc knows the thread by its new number. It does not in a child of vfork(),
// which runs in its parent's memory, and must not end the parent's record. Nobody is in the child who would write the buffers.
void as_recorder_end_in_child(void)
{
    if ((uint64_t)syscall(SYS_getpid) != as_recorder.head->pid)
        atomic_store(&as_recorder.profiling, false);
}

bool as_recorder_next_buffer(struct as_recorder_thread *t)
{
    if (as_recorder_is_another(t)) { // else the kernel is not asked: a sandbox may end the process for the question
        as_recorder_end_in_child();
        if (!as_recorder_is_on())
            return false;
    }
    // A handler may interrupt this and leave it by siglongjmp: there is no room then, until all is as it should be.
    t->end = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    // In this order: once it is handed over, it may soon be another thread's, and the writer's thread must not find it here.
    // NULL: there was none, or the writer's thread has taken it back.
    struct as_recorder_buffer *buffer = atomic_exchange(&t->buffer, NULL);
    if (buffer)
        hand_over(t, buffer);
    buffer = take_buffer();
    if (buffer) {
        buffer->thread = t->index;
        buffer->number = t->buffers++;
        buffer->filled = buffer->drained = 0;
    }
    atomic_store_explicit(&t->at, buffer ? buffer->words : NULL, memory_order_release);
    atomic_store_explicit(&t->buffer, buffer, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    t->end = buffer ? buffer->words + WORDS : NULL;
    return buffer != NULL;
}

struct as_recorder_buffer *as_recorder_full_buffers(void)
{
    atomic_store(&lists.count, 0);
    uint32_t at = atomic_exchange(&lists.full, 0), oldest = 0;
    while (at != 0) {
        struct as_recorder_buffer *buffer = as_recorder_buffer_at(at);
        uint32_t newer = oldest;
        oldest = at;
        at = atomic_load_explicit(&buffer->next, memory_order_relaxed);
        atomic_store_explicit(&buffer->next, newer, memory_order_relaxed);
    }
    return as_recorder_buffer_at(oldest);
}

bool as_recorder_buffers_scarce(void)
{
    return atomic_load_explicit(&lists.touched, memory_order_relaxed) >= as_recorder.buffer_count;
}

// The thread's next event finds no room, and it hands the buffer over, if it has it still. (It reads `end` while this
// is written: one aligned word. Where it has just got another buffer, it hands that one over nearly empty.)
void as_recorder_buffer_ask_back(struct as_recorder_thread *t)
{
    __atomic_store_n(&t->end, NULL, __ATOMIC_RELAXED);
}

bool as_recorder_buffers_barrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

// A thread names itself busy before it searches for room, and is so until it has stored where the room of another
// buffer ends. So, after the barrier, one that is not busy, and has no room, has written all that it will write into
// this buffer: it finds no room when it enters. Then it and this thread may both be about to take the buffer, and one
// of them gets it. (Nobody but the writer's thread makes it free again: it is the same one still.) Until then `at`
// stays, too.
uint32_t as_recorder_buffer_take_back(struct as_recorder_thread *t, struct as_recorder_buffer *buffer)
{
    if (atomic_load(&t->busy) != 0 || __atomic_load_n(&t->end, __ATOMIC_ACQUIRE) != NULL)
        return UINT32_MAX;
    uint64_t *at = atomic_load(&t->at);
    return atomic_compare_exchange_strong(&t->buffer, &buffer, NULL) ? (uint32_t)(at - buffer->words) : UINT32_MAX;
}

// Behind the buffers, the numbers of stacks.
bool as_recorder_buffers_map(uint64_t bytes)
{
    if (as_recorder.buffers)
        return true;
    uint64_t numbers = as_recorder.head->stacks.size * sizeof *as_recorder.stack_numbers;
    uint64_t all = bytes + (numbers + WHOLE_PAGES - 1) / WHOLE_PAGES * WHOLE_PAGES;
    char *map = as_recorder_map_alone(all, "arenascope record");
    struct as_profile_buffers *head = (void *)map;
    if (!map)
        return false;
    *head = (struct as_profile_buffers){.magic = AS_PROFILE_BUFFERS, .self = (uintptr_t)map, .size = all};
    as_recorder.stack_numbers = (void *)(map + bytes);
    as_recorder.buffers = map + sizeof *head;
    as_recorder.buffer_count = (uint32_t)((bytes - sizeof *head) / BYTES);
    return true;
}
