// SPDX-License-Identifier: MIT
// A library to preload, for a process whose memory is in many mappings. A program protects or advises parts of what it has mapped, or gives them
// a protection key where the processor has these; and the kernel makes mappings of their own for them.
//
// Before the program begins, each page of .bss gets a mapping of its own, in all objects that are loaded. At SIGNAL, so does every second page of
// all private memory that can be written.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIGNAL = 63, TEXT = 1 << 20, MOST = 20000 }; // the kernel allows 65,530 mappings

static char maps[TEXT]; // the handler must not call malloc
static int left = MOST;

static void read_maps(void)
{
    size_t length = 0;
    ssize_t count = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && (count = read(file, maps + length, sizeof maps - 1 - length)) > 0)
        length += (size_t)count;
    maps[length] = '\0';
    close(file);
}

// For memory of no file the advice changes nothing but the mapping's flags.
static void split(unsigned long start, unsigned long end)
{
    const unsigned long size = (unsigned long)sysconf(_SC_PAGESIZE);
    for (unsigned long page = start; page < end && left > 0; page += 2 * size, left--)
        madvise((void *)page, size, MADV_RANDOM);
}

static void split_all(bool variables)
{
    char prot[5], path[2];
    unsigned long start, end, data_end = 0;
    read_maps();
    for (char *line = maps; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        int fields = sscanf(line, "%lx-%lx %4s %*s %*s %*s%*[ ]%1[^\n]", &start, &end, prot, path);
        bool writable = fields >= 3 && strcmp(prot, "rw-p") == 0;
        if (writable && (!variables || (fields == 3 && start == data_end)))
            split(start, end);
        data_end = writable && fields == 4 && *path == '/' ? end : 0;
    }
}

static void on_signal(int number)
{
    (void)number;
    split_all(false);
}

__attribute__((constructor)) static void begin(void)
{
    split_all(true);
    sigaction(SIGNAL, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
}
