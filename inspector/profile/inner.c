// SPDX-License-Identifier: MIT
#include "profile/inner.h"
#include "profile/fast.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { PROBES = 16, FORGET_MS = 10 };

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
            atomic_store_explicit(&as_recorder.readable[page % AS_INNER_PAGES], page + 1, memory_order_relaxed);
    }
    errno = saved;
    return readable;
}

void as_inner_forget_pages(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t due = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    uint64_t last = atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed);
    if (due - last < FORGET_MS || !atomic_compare_exchange_strong_explicit(&as_recorder.readable_since, &last, due,
                                                                           memory_order_relaxed, memory_order_relaxed))
        return;
    for (size_t i = 0; i < AS_INNER_PAGES; i++)
        atomic_store_explicit(&as_recorder.readable[i], 0, memory_order_relaxed);
}

// --- Whole walks ------------------------------------------------------------------------------------------------------

struct as_inner_walk *as_inner_walk_take(void)
{
    for (size_t i = 0; i < AS_RECORDER_WALKS; i++) {
        struct as_inner_walk *w = &as_recorder.walks[i];
        if (!atomic_load_explicit(&w->taken, memory_order_relaxed) && !atomic_exchange(&w->taken, true))
            return w;
    }
    return NULL;
}

void as_inner_walk_leave(struct as_inner_walk *walk)
{
    atomic_store_explicit(&walk->taken, false, memory_order_release);
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

static bool is_function(uint32_t id, const struct as_profile_function *f, const struct as_inner_walk *walk)
{
    const struct as_profile_function *known = &as_recorder.functions[id];
    return known->hash == f->hash && known->first_line == f->first_line &&
           strcmp(as_recorder.texts + known->name, walk->name) == 0 &&
           strcmp(as_recorder.texts + known->file, walk->file) == 0;
}

// 0: there is no room.
static uint32_t add_function(struct as_profile_function f, const struct as_inner_walk *walk)
{
    struct as_profile_table *table = &as_recorder.head->functions;
    f.name = add_text(walk->name);
    f.file = add_text(walk->file);
    uint64_t id = __atomic_load_n(&table->used, __ATOMIC_RELAXED);
    if (f.name == 0 || (f.file == 0 && walk->file[0]) || id >= table->size ||
        (id = __atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED)) >= table->size)
        return 0;
    as_recorder.functions[id] = f;
    return (uint32_t)id;
}

// The function with the names in `walk`.
static uint32_t function_of(struct as_profile_function f, const struct as_inner_walk *walk)
{
    uint32_t added = 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint32_t *place = &as_recorder.function_index[(f.hash + i) & (2 * AS_RECORDER_FUNCTIONS - 1)];
        uint32_t id = atomic_load_explicit(place, memory_order_acquire);
        if (id == 0) {
            if (added == 0 && (added = add_function(f, walk)) == 0)
                return 0;
            if (atomic_compare_exchange_strong(place, &id, added))
                return added;
        }
        if (is_function(id, &f, walk))
            return id;
    }
    return 0;
}

uint64_t as_inner_line(const struct as_inner_walk *walk, uint32_t first_line, uint64_t line)
{
    struct as_profile_function f = {.first_line = first_line};
    f.hash = hash_of(walk->file, hash_of(walk->name, first_line));
    uint64_t id = walk->name[0] ? function_of(f, walk) : 0;
    if (line >> AS_PROFILE_LINE_BITS)
        line = 0;
    return (uint64_t)walk->language << 48 | id << AS_PROFILE_LINE_BITS | line;
}
