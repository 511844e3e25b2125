// SPDX-License-Identifier: MIT
// What the machine can do at best, measured beside what we do: `limits read PID` copies all that is resident of a process's
// writable private memory through process_vm_readv into one buffer of 1 MiB that is reused, and prints the bytes and the
// nanoseconds; `limits read PID START-END...` (hexadecimal) only what lies there. What is not resident (stacks, mostly) would be copied
// from the kernel's page of zeros, which is no work.
#include "base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, ENTRIES = 4096 };

struct range {
    uint64_t start, end;
};

struct ranges {
    struct range *items;
    size_t count, capacity;
};

static bool add(struct ranges *r, uint64_t start, uint64_t end)
{
    if (r->count > 0 && r->items[r->count - 1].end == start) {
        r->items[r->count - 1].end = end;
        return true;
    }
    if (r->count == r->capacity) {
        size_t capacity = r->capacity * 2 + 64;
        struct range *items = reallocarray(r->items, capacity, sizeof *items);
        if (!items)
            return false;
        r->items = items;
        r->capacity = capacity;
    }
    r->items[r->count++] = (struct range){start, end};
    return true;
}

// The pages of [start, end) that are present.
static bool add_present(struct ranges *r, int pagemap, uint64_t start, uint64_t end)
{
    static uint64_t entries[ENTRIES];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint64_t at = start; at < end;) {
        size_t want = (end - at) / page < ENTRIES ? (size_t)((end - at) / page) : ENTRIES;
        ssize_t got = pread(pagemap, entries, want * sizeof *entries, (off_t)(at / page * sizeof *entries));
        if (got <= 0)
            return got == 0;
        for (size_t i = 0; i < (size_t)got / sizeof *entries; i++, at += page)
            if ((entries[i] >> 63 & 1) && !add(r, at, at + page))
                return false;
    }
    return true;
}

// The ranges that were asked for.
static bool find_given(struct ranges *r, int pagemap, char **given)
{
    for (; *given; given++) {
        uint64_t start, end;
        if (sscanf(*given, "%" SCNx64 "-%" SCNx64, &start, &end) != 2 || !add_present(r, pagemap, start, end))
            return false;
    }
    return true;
}

static bool find(struct ranges *r, pid_t pid, char **given)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/pagemap", pid);
    int pagemap = open(name, O_RDONLY);
    if (*given)
        return pagemap >= 0 && find_given(r, pagemap, given);
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    bool ok = pagemap >= 0 && maps;
    char line[4096];
    while (ok && fgets(line, sizeof line, maps)) {
        uint64_t start, end;
        char access[5];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, access) == 3 && strcmp(access, "rw-p") == 0)
            ok = add_present(r, pagemap, start, end);
    }
    if (!ok)
        perror(name);
    if (maps)
        fclose(maps);
    if (pagemap >= 0)
        close(pagemap);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], "read") != 0) {
        fprintf(stderr, "usage: limits read PID [START-END]...\n");
        return 2;
    }
    pid_t pid = (pid_t)strtol(argv[2], NULL, 10);
    struct ranges ranges = {0};
    char *buffer = malloc(BUFFER);
    if (!buffer || !find(&ranges, pid, argv + 3))
        return 1;
    memset(buffer, 1, BUFFER);
    uint64_t bytes = 0;
    uint64_t before = as_clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < ranges.count; i++) {
        for (uint64_t at = ranges.items[i].start; at < ranges.items[i].end;) {
            uint64_t left = ranges.items[i].end - at;
            size_t length = left < BUFFER ? (size_t)left : BUFFER;
            struct iovec local = {buffer, length};
            struct iovec remote = {(void *)(uintptr_t)at, length}; // NOLINT(performance-no-int-to-ptr)
            ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
            if (got <= 0)
                break;
            at += (uint64_t)got;
            bytes += (uint64_t)got;
        }
    }
    uint64_t spent = as_clock_ns(CLOCK_MONOTONIC) - before;
    free(ranges.items);
    free(buffer);
    printf("%" PRIu64 " %" PRIu64 "\n", bytes, spent);
    return 0;
}
