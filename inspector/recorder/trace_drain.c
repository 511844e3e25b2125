// SPDX-License-Identifier: MIT
// From the buffers of a trace into its file, a block at a time. What has been written stays, whatever becomes of the process; a
// block that the disk had no room for is taken back. Of a thread's buffer that is not full, what is there is written, too.
#include "base/output.h"
#include "recorder/trace_events.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = AS_TRACE_MOST_BYTES - sizeof(struct as_trace_block),
    MODULES = BLOCK_BYTES / sizeof(struct as_trace_module),
    LOSSES = BLOCK_BYTES / sizeof(struct as_trace_loss),
    PATIENCE = 50, // passes of 100 ms, for a context that is being written down
};

static struct {
    int file;
    uint64_t size, number; // of the file's whole blocks
    uint64_t most;         // the size that it may have in this pass
    uint32_t modules, contexts, losses, stacks;
    uint32_t awaited, turns; // a context that was not written down yet, for so many passes
    bool ends;
    struct as_trace_interpreters interpreters; // as the file says already
    int error;
    uint32_t buffers[AS_RECORDER_THREADS];                // of each thread, written to their end
    uint64_t lost[AS_RECORDER_THREADS];                   // as the file says already
    uint64_t *at[AS_RECORDER_THREADS];                    // where each thread was in the last pass
    struct as_recorder_buffer *idle[AS_RECORDER_THREADS]; // whose thread is where it was
    uint64_t words[BLOCK_BYTES / sizeof(uint64_t)];
    uint64_t functions[BLOCK_BYTES / sizeof(uint64_t)]; // that are to be written before the words
    size_t function_words;
    bool has_function[AS_RECORDER_FUNCTIONS]; // the file, or `functions`
} sink;
_Static_assert((int)AS_RECORDER_FUNCTIONS <= (int)AS_TRACE_MOST_FUNCTIONS, "an index is refused by the reader");

// The program writes to the same file system, as a rule: a part of it stays free. (One that does not say how large it is has no limit.)
static void wait_for_room(void)
{
    struct statfs disk;
    sink.most = UINT64_MAX;
    if (syscall(SYS_fstatfs, sink.file, &disk) != 0 || disk.f_blocks == 0)
        return;
    uint64_t unit = (uint64_t)(disk.f_frsize != 0 ? disk.f_frsize : disk.f_bsize);
    uint64_t free = (uint64_t)disk.f_bavail * unit, spare = (uint64_t)disk.f_blocks * unit / AS_OUTPUT_PART_FREE;
    sink.most = sink.size + (free > spare ? free - spare : 0);
}

static bool put_block(uint32_t kind, uint32_t thread, const void *payload, size_t bytes)
{
    struct as_trace_block block = {
        .magic = AS_TRACE_BLOCK, .kind = kind, .size = (uint32_t)bytes, .thread = thread, .number = sink.number};
    block.checksum = as_trace_checksum(&block, payload);
    struct iovec parts[2] = {{.iov_base = &block, .iov_len = sizeof block},
                             {.iov_base = (void *)(uintptr_t)payload, .iov_len = bytes}};
    struct iovec *part = parts;
    if (sink.error == 0 && sink.size + sizeof block + bytes > sink.most)
        sink.error = ENOSPC;
    for (int left = 2; sink.error == 0 && left > 0;) {
        ssize_t done = writev(sink.file, part, left);
        if (done <= 0 && errno != EINTR)
            sink.error = done < 0 ? errno : ENOSPC;
        for (; done > 0 && left > 0; left -= part->iov_len == 0, part += part->iov_len == 0) {
            size_t piece = (size_t)done < part->iov_len ? (size_t)done : part->iov_len;
            part->iov_base = (char *)part->iov_base + piece;
            part->iov_len -= piece;
            done -= (ssize_t)piece;
        }
    }
    if (sink.error != 0) {
        if (ftruncate(sink.file, (off_t)sink.size) == 0)
            lseek(sink.file, (off_t)sink.size, SEEK_SET);
        return false;
    }
    sink.size += sizeof block + bytes;
    sink.number++;
    return true;
}

// --- What belongs to the events ---------------------------------------------------------------------------------------

// As many as a block holds. *more: there were some.
static bool put_some_modules(bool *more)
{
    struct as_trace_module *out = (void *)sink.words;
    uint64_t used = __atomic_load_n(&as_recorder.head->modules.used, __ATOMIC_ACQUIRE);
    size_t count = 0;
    for (; sink.modules < used && count < MODULES; sink.modules++, count++) {
        const struct as_profile_module *m = &as_recorder.modules[sink.modules];
        out[count] = (struct as_trace_module){.start = m->start,
                                              .end = m->end,
                                              .bias = m->bias,
                                              .index = sink.modules,
                                              .build_id_size = m->build_id_size};
        memcpy(out[count].build_id, m->build_id, sizeof m->build_id);
        memcpy(out[count].name, m->name, sizeof out[count].name);
    }
    *more = count > 0;
    return count == 0 || put_block(AS_TRACE_MODULES, 0, out, count * sizeof *out);
}

static bool put_functions(void)
{
    size_t words = sink.function_words;
    sink.function_words = 0;
    return words == 0 || put_block(AS_TRACE_FUNCTIONS, 0, sink.functions, words * sizeof *sink.functions);
}

static uint32_t caller_of(uint32_t stack)
{
    return as_profile_caller(as_recorder.stacks, stack);
}

static uint64_t frame_of(uint32_t stack)
{
    return as_recorder.frames[as_recorder.stacks[stack]];
}

// Adds the functions that a stack names and the file does not have. A stack that can be seen has names that are whole: they were written
// before it. What is above a stack that has a number is in the file already.
static bool add_functions(uint32_t stack)
{
    const uint64_t mask = AS_TRACE_MOST_FUNCTIONS - 1;
    for (; stack && as_recorder.stack_numbers[stack] == 0; stack = caller_of(stack)) {
        uint64_t frame = frame_of(stack), index = frame >> AS_PROFILE_LINE_BITS & mask;
        bool interpreted = frame >> 48 == AS_PROFILE_PYTHON || frame >> 48 == AS_PROFILE_RUBY;
        if (!interpreted || index == 0 || sink.has_function[index])
            continue;
        const struct as_profile_function *f = &as_recorder.functions[index];
        const char *name = as_recorder.texts + f->name, *file = as_recorder.texts + f->file;
        size_t name_size = strlen(name), file_size = strlen(file), words = (name_size + file_size + 7) / 8;
        if (sink.function_words + 1 + words > sizeof sink.functions / sizeof *sink.functions && !put_functions())
            return false;
        uint64_t *to = &sink.functions[sink.function_words];
        to[words] = 0;
        to[0] = as_trace_function_word((uint32_t)index, (uint32_t)name_size, (uint32_t)file_size);
        memcpy(to + 1, name, name_size);
        memcpy((char *)(to + 1) + name_size, file, file_size);
        sink.function_words += 1 + words;
        sink.has_function[index] = true;
    }
    return true;
}

// How many frames of a context the file does not have. *known: the number of the stack that they are below; 0: none.
static uint32_t count_new_frames(const struct as_profile_context *c, uint32_t *known)
{
    uint32_t stack = c->stack, count = 0;
    for (; stack && as_recorder.stack_numbers[stack] == 0; stack = caller_of(stack))
        count++;
    *known = stack ? as_recorder.stack_numbers[stack] : 0;
    return count;
}

// A context, and its new frames, outermost first. Returns how many words it has.
static size_t add_context(const struct as_profile_context *c, uint64_t *to)
{
    uint32_t known, count = count_new_frames(c, &known), stack = c->stack;
    to[0] = as_trace_context_word(known, count, c->complete);
    for (uint32_t i = count; i > 0; i--, stack = caller_of(stack)) {
        to[i] = frame_of(stack);
        as_recorder.stack_numbers[stack] = sink.stacks + i;
    }
    sink.stacks += count;
    return 1 + count;
}

// A context that nobody has written down.
static size_t add_unknown(uint64_t *to)
{
    to[0] = as_trace_context_word(0, 0, false);
    return 1;
}

static bool has_more_contexts(void)
{
    const struct as_profile_table *table = &as_recorder.head->contexts;
    return sink.contexts < __atomic_load_n(&table->used, __ATOMIC_RELAXED) && sink.contexts < table->size;
}

// Whether nobody is to be expected any more to write down the next context: a signal handler that leaves the recorder by longjmp leaves it
// so for good, and what is behind it must not wait for ever.
static bool is_given_up(void)
{
    return sink.ends || (sink.contexts == sink.awaited && sink.turns >= PATIENCE);
}

static void await_context(void)
{
    sink.turns = has_more_contexts() && sink.contexts == sink.awaited ? sink.turns + 1 : 0;
    sink.awaited = sink.contexts;
}

// Likewise, up to the first that another thread is still writing down. A context that is whole has a stack that is: all of its frames
// were there before.
static bool put_some_contexts(bool *more)
{
    size_t words = 1, room = sizeof sink.words / sizeof *sink.words;
    sink.words[0] = as_trace_stacks_word(sink.contexts, sink.stacks + 1);
    for (; has_more_contexts(); sink.contexts++) {
        const struct as_profile_context *c = &as_recorder.contexts[sink.contexts];
        uint32_t count = __atomic_load_n(&c->count, __ATOMIC_ACQUIRE);
        if ((count == 0 && !is_given_up()) || words + 1 + count > room)
            break;
        if (count > 0 && !add_functions(c->stack))
            return false;
        words += count > 0 ? add_context(c, sink.words + words) : add_unknown(sink.words + words);
    }
    *more = words > 1;
    return put_functions() && (words == 1 || put_block(AS_TRACE_STACKS, 0, sink.words, words * sizeof *sink.words));
}

static bool put_all(bool (*put_some)(bool *more))
{
    bool more = true;
    while (more)
        if (!put_some(&more))
            return false;
    return true;
}

// As many as a block holds.
static bool put_some_losses(bool *more)
{
    struct as_trace_loss *out = (void *)sink.words;
    size_t count = 0;
    for (; (sink.losses = (uint32_t)as_recorder_next_thread(sink.losses)) < AS_RECORDER_THREADS && count < LOSSES;
         sink.losses++) {
        uint32_t i = sink.losses;
        struct as_recorder_thread *t = &as_recorder.threads[i];
        if (atomic_load_explicit(&t->pointer, memory_order_relaxed) == 0)
            continue;
        struct as_trace_loss loss = {.thread = i,
                                     .allocations = atomic_load_explicit(&t->lost_allocations, memory_order_relaxed),
                                     .frees = atomic_load_explicit(&t->lost_frees, memory_order_relaxed)};
        if (loss.allocations + loss.frees == sink.lost[i])
            continue;
        sink.lost[i] = loss.allocations + loss.frees;
        out[count++] = loss;
    }
    *more = count > 0;
    return count == 0 || put_block(AS_TRACE_LOSSES, 0, out, count * sizeof *out);
}

static bool put_state(void)
{
    const struct as_profile_counts *c = &as_recorder.head->counts;
    const struct as_trace_state state = {
        .ticks = as_recorder_ticks(),
        .monotonic = as_clock_ns(CLOCK_MONOTONIC),
        .realtime = as_clock_ns(CLOCK_REALTIME),
        .misses = __atomic_load_n(&c->misses, __ATOMIC_RELAXED),
        .checked = __atomic_load_n(&c->checked, __ATOMIC_RELAXED),
        .wrong = __atomic_load_n(&c->wrong, __ATOMIC_RELAXED),
        .cut = __atomic_load_n(&c->cut, __ATOMIC_RELAXED),
        .missed = atomic_load(&as_recorder.missed),
    };
    return put_block(AS_TRACE_STATE, 0, &state, sizeof state);
}

// What has changed since the file was told; at the beginning: that there are some.
static bool put_interpreters(void)
{
    const struct as_profile_head *head = as_recorder.head;
    const struct as_trace_interpreters now = {
        .python = __atomic_load_n(&head->unknown_python, __ATOMIC_RELAXED),
        .ruby = __atomic_load_n(&head->unknown_ruby, __ATOMIC_RELAXED),
    };
    if (memcmp(&now, &sink.interpreters, sizeof now) == 0)
        return true;
    sink.interpreters = now;
    return put_block(AS_TRACE_INTERPRETERS, 0, &now, sizeof now);
}

// --- Events -----------------------------------------------------------------------------------------------------------

static bool put_events(struct as_recorder_buffer *buffer, uint32_t up_to)
{
    uint32_t from = buffer->drained;
    if (up_to <= from)
        return true;
    buffer->drained = up_to;
    return put_block(AS_TRACE_EVENTS, buffer->thread, buffer->words + from, (up_to - from) * sizeof *buffer->words);
}

static bool put_full_buffers(void)
{
    struct as_recorder_buffer *buffer = as_recorder_full_buffers();
    while (buffer) {
        struct as_recorder_buffer *next = as_recorder_buffer_at(atomic_load(&buffer->next));
        put_events(buffer, buffer->filled);
        sink.buffers[buffer->thread] = buffer->number + 1;
        as_recorder_buffer_done(buffer);
        buffer = next;
    }
    return sink.error == 0;
}

// What the thread has written into a buffer that it is still filling. It may hand the buffer over meanwhile, but nobody else takes it:
// only this thread gives buffers back. Not where an older one of the thread's has just become full.
static bool put_begun_buffer(uint32_t index)
{
    struct as_recorder_thread *t = &as_recorder.threads[index];
    struct as_recorder_buffer *buffer = atomic_load_explicit(&t->buffer, memory_order_acquire);
    uint64_t *at = atomic_load_explicit(&t->at, memory_order_acquire);
    if (!buffer || buffer->number != sink.buffers[index] || at < buffer->words ||
        (size_t)(at - buffer->words) > BLOCK_BYTES / sizeof *at)
        return true;
    return put_events(buffer, (uint32_t)(at - buffer->words));
}

// A thread that has come no further since the last pass, and whose older buffers are all in the file.
static bool is_idle(uint32_t index)
{
    struct as_recorder_thread *t = &as_recorder.threads[index];
    uint64_t *at = atomic_load_explicit(&t->at, memory_order_acquire), *before = sink.at[index];
    sink.at[index] = at;
    sink.idle[index] = atomic_load_explicit(&t->buffer, memory_order_acquire);
    return sink.idle[index] && at == before && sink.idle[index]->number == sink.buffers[index];
}

// Threads that are idle, or have ended, would keep their buffers for good, and others would have none.
static void take_idle_buffers(void)
{
    bool asked = false, scarce = as_recorder_buffers_scarce();
    for (size_t i = as_recorder_next_thread(0); i < AS_RECORDER_THREADS; i = as_recorder_next_thread(i + 1)) {
        if (!is_idle((uint32_t)i) || !scarce) {
            sink.idle[i] = NULL;
            continue;
        }
        as_recorder_buffer_ask_back(&as_recorder.threads[i]);
        asked = true;
    }
    if (!asked || !as_recorder_buffers_barrier())
        return;
    for (size_t i = as_recorder_next_thread(0); i < AS_RECORDER_THREADS; i = as_recorder_next_thread(i + 1)) {
        struct as_recorder_buffer *buffer = sink.idle[i];
        uint32_t words = buffer ? as_recorder_buffer_take_back(&as_recorder.threads[i], buffer) : UINT32_MAX;
        if (words == UINT32_MAX)
            continue;
        put_events(buffer, words);
        sink.buffers[i] = buffer->number + 1;
        as_recorder_buffer_done(buffer);
    }
}

bool as_recorder_drain(bool all)
{
    uint64_t before = sink.number;
    wait_for_room();
    put_full_buffers();
    if (!all || sink.error != 0)
        return sink.error == 0 || (errno = sink.error, false);
    for (size_t i = as_recorder_next_thread(0); i < AS_RECORDER_THREADS; i = as_recorder_next_thread(i + 1))
        if (sink.error == 0)
            put_begun_buffer((uint32_t)i);
    if (sink.error == 0)
        take_idle_buffers();
    sink.losses = 0;
    bool ok = put_all(put_some_modules) && put_all(put_some_contexts) && put_all(put_some_losses) &&
              put_interpreters() && (sink.number == before || put_state());
    await_context();
    return ok || (errno = sink.error, false);
}

bool as_recorder_drain_begin(int file)
{
    struct as_trace_head *head = (void *)sink.words;
    memset(&sink, 0, sizeof sink);
    sink.file = file;
    wait_for_room();
    sink.contexts = AS_PROFILE_FIRST;
    *head = (struct as_trace_head)
    {
        .magic = AS_TRACE_MAGIC, .version = AS_TRACE_VERSION,
        .clock = as_recorder.ticks ? AS_TRACE_TSC : AS_TRACE_MONOTONIC, .pid = (uint64_t)getpid(),
#if defined(__x86_64__)
        .machine = EM_X86_64,
#else
        .machine = EM_AARCH64,
#endif
        .page_size = 1U << as_recorder.page_shift,
    };
    if (readlink("/proc/self/exe", head->program, sizeof head->program - 1) < 0)
        head->program[0] = '\0';
    return (put_block(AS_TRACE_HEAD, 0, head, sizeof *head) && put_interpreters() && put_state()) ||
           (errno = sink.error, false);
}

// After a failure: what stays free, or was taken back of a torn block, has room for this one.
void as_recorder_drain_end(void)
{
    sink.ends = true;
    if (sink.error == 0)
        put_all(put_some_contexts);
    struct as_trace_ending end = {.reason = AS_TRACE_EXIT, .error = (uint32_t)sink.error};
    if (sink.error != 0)
        end.reason =
            sink.error == ENOSPC || sink.error == EFBIG || sink.error == EDQUOT ? AS_TRACE_NO_SPACE : AS_TRACE_IO;
    sink.error = 0;
    sink.most = UINT64_MAX;
    put_block(AS_TRACE_END, 0, &end, sizeof end);
}
