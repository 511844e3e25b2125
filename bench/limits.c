// SPDX-License-Identifier: MIT
// What the machine can do at best, measured beside what we do: `limits read PID` copies all of a process's writable
// private memory through process_vm_readv into one buffer of 1 MiB that is reused, and prints the bytes and the nanoseconds.
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20 };

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "read") != 0) {
        fprintf(stderr, "usage: limits read PID\n");
        return 2;
    }
    pid_t pid = (pid_t)strtol(argv[2], NULL, 10);
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    char *buffer = malloc(BUFFER);
    if (!maps || !buffer) {
        perror(name);
        return 1;
    }
    memset(buffer, 1, BUFFER);
    uint64_t bytes = 0;
    uint64_t spent = 0;
    char line[4096];
    while (fgets(line, sizeof line, maps)) {
        uint64_t start, end;
        char access[5];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, access) != 3 || strcmp(access, "rw-p") != 0)
            continue;
        uint64_t before = now();
        for (uint64_t at = start; at < end;) {
            size_t length = end - at < BUFFER ? end - at : BUFFER;
            struct iovec local = {buffer, length};
            struct iovec remote = {(void *)(uintptr_t)at, length}; // NOLINT(performance-no-int-to-ptr)
            ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
            if (got <= 0)
                break;
            at += (uint64_t)got;
            bytes += (uint64_t)got;
        }
        spent += now() - before;
    }
    fclose(maps);
    free(buffer);
    printf("%" PRIu64 " %" PRIu64 "\n", bytes, spent);
    return 0;
}
