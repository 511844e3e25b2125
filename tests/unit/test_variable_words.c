// SPDX-License-Identifier: MIT
// Our own variables, read once for several searches: these see what each would have read itself.
#include "runtimes/pointers.h"
#include "runtimes/variable_words.h"
#include "support/check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POINTERS = 1000, TOO_MANY = 1 << 18 };
static const uint64_t NUMBER = UINT64_C(0xfedcba9876543210);

// Behind the last of .data, and in .bss.
static volatile uint64_t number = NUMBER;
static const char *volatile pointers[POINTERS];
static const char *volatile many[TOO_MANY];
static const struct as_interpreter_objects no_interpreters;

struct seen {
    uint64_t start, end; // of the memory that is pointed to
    uint64_t places[POINTERS + 1];
    size_t count, most;
};

static bool see(void *context, uint64_t place, uint64_t word)
{
    struct seen *seen = context;
    if (word < seen->start || word >= seen->end || place < (uintptr_t)pointers ||
        place >= (uintptr_t)pointers + sizeof pointers)
        return true;
    seen->places[seen->count++] = place;
    return seen->count < seen->most;
}

static bool is_candidate(void *context, uint64_t place, uint64_t word)
{
    see(context, place, word);
    return false;
}

static bool follow(void *context, const uint64_t *words, const uint64_t *places, size_t count)
{
    (void)context, (void)words, (void)places, (void)count;
    return true;
}

static struct as_target *open_self(void)
{
    struct as_error err = {0};
    struct as_target *t = as_target_open_self(false, &err);
    CHECK(t, "%s", err.text);
    return t;
}

static struct as_range variables_of(const struct as_target *t)
{
    struct as_range found = {0};
    for (size_t i = 0; i < t->mappings.count; i++)
        if (t->mappings.items[i].start <= (uintptr_t)&number && t->mappings.items[i].end > (uintptr_t)&number)
            CHECK(as_variables_at(t, i, &found));
    CHECK(found.end >= (uintptr_t)pointers + sizeof pointers && found.start <= (uintptr_t)pointers);
    return found;
}

// What a search sees, of which words are known or not.
static void check_seen(const struct as_variable_words *w, struct as_target *t, struct as_range range, uint64_t memory,
                       uint64_t size)
{
    struct seen seen = {.start = memory, .end = memory + size, .most = POINTERS + 1};
    int64_t reads_left = 1 << 20;
    as_variable_words_visit(w, t, &reads_left, range, see, &seen);
    CHECK(seen.count == POINTERS, "%zu", seen.count);
    for (size_t i = 0; i < POINTERS; i++)
        CHECK(seen.places[i] == (uintptr_t)&pointers[i]);
    seen.count = 0;
    seen.most = 3; // a search that ends
    as_variable_words_visit(w, t, &reads_left, range, see, &seen);
    CHECK(seen.count == 3);
    seen.count = 0;
    seen.most = POINTERS + 1;
    as_variable_words_visit(w, t, &reads_left, (struct as_range){(uintptr_t)&pointers[7], (uintptr_t)&pointers[9]}, see,
                            &seen);
    CHECK(seen.count == 2 && seen.places[0] == (uintptr_t)&pointers[7]);
    seen.count = 0;
    const struct as_pointer_search search = {t, &seen, is_candidate, follow, &reads_left, w};
    CHECK(as_pointers_search(&search, (uintptr_t)&pointers[1], range.end));
    CHECK(seen.count == POINTERS - 1);
}

static void check_numbers(const struct as_variable_words *w)
{
    size_t possible = 0;
    CHECK(as_variable_words_may_have(w, NUMBER));
    for (uint64_t i = 1; i <= 64; i++)
        possible += as_variable_words_may_have(w, NUMBER + i);
    CHECK(w && w->whole ? possible < 32 : possible == 64, "%zu", possible);
    CHECK(as_variable_words_may_have(w, 1)); // of numbers of up to 48 bits nothing is known
}

static void check_all(const char *memory, uint64_t size, bool whole)
{
    struct as_target *t = open_self();
    struct as_range range = variables_of(t);
    struct as_variable_words w = {0};
    as_variable_words_read(&w, t, &no_interpreters);
    CHECK(w.whole == whole);
    check_seen(&w, t, range, (uintptr_t)memory, size);
    check_numbers(&w);
    size_t count = w.found.count;
    as_variable_words_read(&w, t, &no_interpreters);
    CHECK(w.found.count == count); // they are not read again
    as_variable_words_free(&w);
    check_seen(&w, t, range, (uintptr_t)memory, size); // nothing is known any more
    check_seen(NULL, t, range, (uintptr_t)memory, size);
    check_numbers(NULL);
    as_target_close(t);
}

static bool count_words(void *context, uint64_t address, const uint64_t *words, size_t count)
{
    (void)address;
    for (size_t i = 0; i < count; i++)
        *(size_t *)context += words[i] == NUMBER;
    return true;
}

// A file's pages that nobody has touched are not in our page tables.
static void test_absent_pages(void)
{
    static const size_t size = 1 << 18;
    int fd = memfd_create("words", MFD_CLOEXEC);
    CHECK(fd >= 0);
    for (size_t i = 0; i < size / sizeof NUMBER; i++)
        CHECK(write(fd, &NUMBER, sizeof NUMBER) == sizeof NUMBER);
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(memory != MAP_FAILED);
    struct as_target *t = open_self();
    const struct as_range range = {(uintptr_t)memory, (uintptr_t)memory + size};
    int64_t reads_left = 1 << 20;
    size_t count = 0;
    CHECK(as_words_read(t, &reads_left, range, false, count_words, &count) && count == 0);
    CHECK(as_words_read(t, &reads_left, range, true, count_words, &count) && count == size / sizeof NUMBER);
    as_target_close(t);
}

int main(void)
{
    const uint64_t size = 1 << 20;
    test_absent_pages();
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (size_t i = 0; i < POINTERS; i++)
        pointers[i] = memory + 8 * i;
    check_all(memory, size, true);
    for (size_t i = 0; i < TOO_MANY; i++)
        many[i] = memory;
    check_all(memory, size, false); // what does not fit is read by each
    return 0;
}
