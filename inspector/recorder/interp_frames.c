// SPDX-License-Identifier: MIT
#include "recorder/interp_frames.h"
#include "base/clock.h"
#include "recorder/hot_path.h"

#include <errno.h>
#include <time.h>

enum { FORGET_MS = 10, NEAR_FUNCTIONS = 64 };

// --- What is readable -------------------------------------------------------------------------------------------------

// A page of which the kernel has said so is remembered.
bool as_inner_ask(uintptr_t from, uintptr_t size)
{
    if (size == 0 || from + size - 1 < from)
        return false;
    int saved = errno;
    bool readable = true;
    uintptr_t last = (from + size - 1) >> as_recorder.page_shift;
    for (uintptr_t page = from >> as_recorder.page_shift; readable && page <= last; page++) {
        if (as_inner_knows_page(page))
            continue;
        readable = as_recorder_is_readable(page << as_recorder.page_shift);
        if (readable)
            atomic_store_explicit(&as_recorder.readable[page & as_recorder.readable_mask], page + 1,
                                  memory_order_relaxed);
    }
    errno = saved;
    return readable;
}

// NULL is no place that the kernel has to be asked for.
bool as_inner_find_near(uintptr_t from, uintptr_t size, struct as_inner_near *near)
{
    uintptr_t page = (uintptr_t)1 << as_recorder_page_shift(), start = from & ~(page - 1);
    if (from == 0 || !as_inner_readable(from, size))
        return false;
    if (from - start <= page - size)
        *near = (struct as_inner_near){.start = start, .bytes = page};
    return true;
}

void as_inner_forget_pages(void)
{
    uint64_t due = as_clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000;
    uint64_t last = atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed);
    if (due - last < FORGET_MS || !atomic_compare_exchange_strong_explicit(&as_recorder.readable_since, &last, due,
                                                                           memory_order_relaxed, memory_order_relaxed))
        return;
    for (size_t i = 0; i <= as_recorder.readable_mask; i++)
        atomic_store_explicit(&as_recorder.readable[i], 0, memory_order_relaxed);
}

// --- Whole walks ------------------------------------------------------------------------------------------------------

_Static_assert(AS_RECORDER_WALKS == 64, "a bit for each");

struct as_inner_walk *as_inner_walk_take(struct as_recorder_thread *thread)
{
    uint64_t taken = atomic_load_explicit(&as_recorder_taken.walks, memory_order_relaxed);
    while (thread->walk == 0 && ~taken != 0) {
        unsigned i = (unsigned)__builtin_ctzll(~taken);
        taken = atomic_fetch_or_explicit(&as_recorder_taken.walks, UINT64_C(1) << i, memory_order_acquire);
        if (!(taken >> i & 1))
            thread->walk = (uint8_t)(i + 1);
    }
    return thread->walk != 0 ? &as_recorder.walks[thread->walk - 1] : NULL;
}

void as_inner_walk_leave(struct as_recorder_thread *thread)
{
    unsigned i = thread->walk;
    thread->walk = 0;
    if (i != 0)
        atomic_fetch_and_explicit(&as_recorder_taken.walks, ~(UINT64_C(1) << (i - 1)), memory_order_release);
}

uint64_t as_inner_hash(uint64_t hash, uintptr_t at, uintptr_t length)
{
    const char *from = (const char *)at;
    uint64_t word, other = hash ^ length;
    for (; length >= 2 * sizeof word; length -= 2 * sizeof word, from += 2 * sizeof word) {
        memcpy(&word, from, sizeof word);
        hash = as_recorder_mix_in(hash, word);
        memcpy(&word, from + sizeof word, sizeof word);
        other = as_recorder_mix_in(other, word);
    }
    for (; length > 0; length -= length < sizeof word ? length : sizeof word, from += sizeof word) {
        word = 0;
        memcpy(&word, from, length < sizeof word ? length : sizeof word);
        other = as_recorder_mix_in(other, word);
    }
    return as_recorder_mix_in(hash, other);
}

// --- Functions by their names -----------------------------------------------------------------------------------------

// 0: there is no room.
static uint32_t add_text(const char *text)
{
    struct as_profile_table *table = &as_recorder.head->texts;
    size_t size = strlen(text) + 1;
    if (size == 1)
        return 0;
    uint64_t at = as_recorder_take_places(table, size);
    if (at == UINT64_MAX)
        return 0;
    memcpy(as_recorder.texts + at, text, size);
    return (uint32_t)at;
}

static uint32_t hash_of(const char *text, uint64_t hash)
{
    for (; *text; text++)
        hash = as_recorder_mix_in(hash, (uint8_t)*text);
    return (uint32_t)(hash >> 32);
}

struct function_wanted {
    const struct as_inner_walk *walk; // with its names
    uint32_t first_line;
};

static bool is_function(uint32_t id, const void *wanted)
{
    const struct function_wanted *w = wanted;
    const struct as_profile_function *known = &as_recorder.functions[id];
    return known->first_line == w->first_line && strcmp(as_recorder.texts + known->name, w->walk->name) == 0 &&
           strcmp(as_recorder.texts + known->file, w->walk->file) == 0;
}

// Functions that are near each other are seen one after another: those of a file have its name once, as a rule.
static uint32_t add_file(const char *file, uint64_t id)
{
    for (uint64_t i = id; i-- > 1 && i + NEAR_FUNCTIONS >= id;) {
        uint32_t known = __atomic_load_n(&as_recorder.functions[i].file, __ATOMIC_ACQUIRE);
        if (strcmp(as_recorder.texts + known, file) == 0)
            return known;
    }
    return add_text(file);
}

// The function with the names in `walk`; 0: there is no room.
static uint32_t function_of(const struct function_wanted *wanted)
{
    struct as_profile_table *table = &as_recorder.head->functions;
    const struct as_inner_walk *walk = wanted->walk;
    struct as_recorder_chain chain = {.used = as_recorder_used(table),
                                      .hash = hash_of(walk->file, hash_of(walk->name, wanted->first_line))};
    uint32_t known = as_recorder_chains_find(&as_recorder.function_chains, &chain, is_function, wanted);
    if (known)
        return known;
    uint32_t name = add_text(walk->name);
    uint64_t id = name ? as_recorder_take_places(table, 1) : UINT64_MAX;
    if (id == UINT64_MAX)
        return 0;
    struct as_profile_function *f = &as_recorder.functions[id];
    f->first_line = wanted->first_line;
    f->name = name;
    __atomic_store_n(&f->file, add_file(walk->file, id), __ATOMIC_RELEASE);
    if (f->file == 0 && walk->file[0])
        return 0;
    return as_recorder_chains_add(&as_recorder.function_chains, &chain, (uint32_t)id, is_function, wanted);
}

uint64_t as_inner_line(const struct as_inner_walk *walk, uint32_t first_line, uint64_t line)
{
    const struct function_wanted wanted = {.walk = walk, .first_line = first_line};
    uint64_t id = walk->name[0] ? function_of(&wanted) : 0;
    if (line >> AS_PROFILE_LINE_BITS)
        line = 0;
    return (uint64_t)walk->language << 48 | id << AS_PROFILE_LINE_BITS | line;
}
