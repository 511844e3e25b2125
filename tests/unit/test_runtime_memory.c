// SPDX-License-Identifier: MIT
// Our own memory and variables, in more mappings than were asked for.
#include "runtimes/regions.h"
#include "runtimes/variables.h"
#include "support/check.h"
#include "target/target.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 8, READS = 100 };

static uint64_t page;

static struct as_target *open_self(void)
{
    struct as_error err = {0};
    struct as_target *t = as_target_open_self(false, &err);
    CHECK(t, "%s", err.text);
    return t;
}

// Memory between two pages that nobody may touch, each of whose pages is a mapping of its own.
static char *in_pieces(void)
{
    char *memory = mmap(NULL, (PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory += page;
    CHECK(mprotect(memory, PAGES * page, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < PAGES; i += 2)
        CHECK(madvise(memory + i * page, page, MADV_RANDOM) == 0);
    return memory;
}

static bool is_range(struct as_target *t, uint64_t address, uint64_t length, int64_t reads_left)
{
    return as_is_runtime_range(t, address, length, &reads_left);
}

static void test_a_range(void)
{
    const uint64_t memory = (uintptr_t)in_pieces(), end = memory + PAGES * page;
    struct as_target *t = open_self();
    CHECK(as_target_mapping_at(t, memory)->end == memory + page);
    CHECK(is_range(t, memory, PAGES * page, READS));
    CHECK(is_range(t, memory + 1, PAGES * page - 1, READS));
    CHECK(is_range(t, end - 1, 1, READS));
    CHECK(!is_range(t, memory, PAGES * page + 1, READS));
    CHECK(!is_range(t, memory - 1, 2, READS));
    CHECK(!is_range(t, end, 1, READS));
    CHECK(!is_range(t, memory, UINT64_MAX, READS));
    CHECK(is_range(t, memory, page, 1)); // what is in one mapping takes none
    int64_t reads_left = PAGES;
    CHECK(as_is_runtime_range(t, memory, PAGES * page, &reads_left));
    CHECK(reads_left == 1);
    CHECK(!as_is_runtime_range(t, memory, 2 * page, &reads_left));
    CHECK(as_runtime_read_budget(t, UINT64_MAX) >= PAGES);
    CHECK(as_runtime_read_budget(t, 2 * page) >=
          as_runtime_read_budget(t, UINT64_MAX) + PAGES / 2); // of pieces of a page each
    as_target_close(t);
}

static bool is_around(struct as_target *t, uint64_t address, uint64_t reach, uint64_t start, uint64_t end)
{
    struct as_range around = as_runtime_around(t, address, reach);
    return around.start == start && around.end == end;
}

static void test_what_is_around(void)
{
    const uint64_t memory = (uintptr_t)in_pieces(), end = memory + PAGES * page, middle = memory + 3 * page + 8;
    struct as_target *t = open_self();
    CHECK(is_around(t, middle, 16, middle - 16, middle + 16)); // of another mapping, too
    CHECK(is_around(t, middle, 2 * page, middle - 2 * page, middle + 2 * page));
    CHECK(is_around(t, middle, 4 * page, memory, middle + 4 * page));
    CHECK(is_around(t, middle, PAGES * page, memory, end));
    CHECK(is_around(t, memory, page, memory, memory + page));
    CHECK(is_around(t, end, page, 0, 0));
    as_target_close(t);
}

// More than the part of it on the last page of .data.
static char variables[3 * PAGES][1 << 16];
static int data = 1;

static void test_variables(void)
{
    const uintptr_t last = (uintptr_t)&variables[3 * PAGES - 1];
    char *inside = (char *)(((uintptr_t)&variables[PAGES] + page - 1) & ~(page - 1));
    memset(variables, 1, sizeof variables);
    data++;
    CHECK(madvise(inside, page, MADV_RANDOM) == 0);
    CHECK(mprotect(inside + 2 * page, page, PROT_READ) == 0);
    struct as_target *t = open_self();
    struct as_range found = {0};
    for (size_t i = 0; i < t->mappings.count; i++)
        if (t->mappings.items[i].start <= (uintptr_t)&data && t->mappings.items[i].end > (uintptr_t)&data)
            CHECK(as_variables_at(t, i, &found));
    CHECK(found.start <= (uintptr_t)&data && found.end > last);
    as_target_close(t);
    CHECK(mprotect(inside + 2 * page, page, PROT_NONE) == 0);
    t = open_self();
    for (size_t i = 0; i < t->mappings.count; i++)
        if (t->mappings.items[i].start == found.start)
            CHECK(as_variables_at(t, i, &found));
    CHECK(found.end == (uintptr_t)inside + 2 * page);
    as_target_close(t);
    CHECK(mprotect(inside + 2 * page, page, PROT_READ | PROT_WRITE) == 0);
}

int main(void)
{
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_a_range();
    test_what_is_around();
    test_variables();
    return 0;
}
