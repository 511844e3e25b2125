// SPDX-License-Identifier: MIT
// Trims whatever program it is preloaded into, when told to: for tests of trim/ alone, without the agent. A thread serves the
// Unix socket $TRIM_SOCKET, one line for each request:
//   forecast|run DEEP HOLD_NS ARENA
//   repeat SECONDS DEEP HOLD_NS      (trims over and over)
#define _GNU_SOURCE
#include "libc/libc.h"
#include "target/target.h"
#include "trim/trim.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int connection;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(connection, line, (size_t)length) != length)
        _exit(3);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// A proof may fail while other threads are busy in malloc: it inspects what they are changing.
static bool find(struct as_target *self, struct as_malloc *m, struct as_error *err)
{
    for (int tries = 0; tries < 1000; tries++) {
        if (!as_malloc_find(self, AS_LAYOUT_ANY, m, err))
            return false;
        bool proven = true;
        for (size_t i = 0; i < m->libcs.count; i++)
            proven &= m->libcs.items[i].proven;
        if (proven)
            return true;
        as_malloc_free(m);
        usleep(1000);
    }
    return as_malloc_find(self, AS_LAYOUT_ANY, m, err);
}

static bool trim_once(const struct as_trim_request *request, bool run, bool quiet)
{
    struct as_error err = {0};
    static struct as_malloc m;
    struct as_trim_outcome out = {0};
    struct as_target *self = as_target_open_self(false, &err);
    bool ok = self && (m.libcs.count > 0 || find(self, &m, &err)) &&
              (run ? as_trim_run : as_trim_forecast)(self, &m, request, &out, &err);
    if (!ok)
        say("error %d %s\n", err.code, err.text);
    bool skipped = false;
    for (size_t i = 0; i < out.arenas.count; i++) {
        const struct as_trim_arena *a = &out.arenas.items[i];
        skipped |= a->skipped;
        if (!quiet || a->skipped)
            say("arena %lu %ld %ld %ld %ld %ld %ld %ld %d\n", a->address, (long)a->resident, (long)a->releasable,
                (long)a->withheld, (long)a->returned, (long)a->returned_swap, (long)a->released,
                (long)a->longest_hold_ns, a->skipped);
    }
    if (ok && !quiet)
        say("time %lu %lu\n", out.elapsed_ns, out.cpu_ns);
    if (out.note[0] && (!quiet || skipped))
        say("note %s\n", out.note);
    as_trim_free(&out);
    as_target_close(self);
    return ok && !skipped;
}

static void serve(const char *line)
{
    unsigned long hold = 0;
    unsigned long arena = 0;
    unsigned deep = 0;
    double seconds;
    bool run = strncmp(line, "run ", 4) == 0;
    if (sscanf(line, "repeat %lf %u %lu", &seconds, &deep, &hold) == 3) {
        struct as_trim_request request = {.deep = deep != 0, .max_hold_ns = hold};
        unsigned count = 0;
        for (double end = now() + seconds; now() < end && trim_once(&request, true, true);)
            count++;
        say("trims %u\n", count);
    } else if (sscanf(line, run ? "run %u %lu %lu" : "forecast %u %lu %lu", &deep, &hold, &arena) == 3) {
        struct as_trim_request request = {.deep = deep != 0, .max_hold_ns = hold, .only = arena};
        trim_once(&request, run, false);
    } else {
        say("error 2 %s\n", line);
    }
    say("end\n");
}

static void *run(void *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", (const char *)path);
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door < 0 || bind(door, (struct sockaddr *)&address, sizeof address) != 0 || listen(door, 8) != 0)
        _exit(3);
    for (;;) {
        connection = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        char line[256];
        size_t used = 0;
        while (read(connection, line + used, 1) == 1) {
            if (line[used] != '\n') {
                used += used + 2 < sizeof line;
                continue;
            }
            line[used] = '\0';
            used = 0;
            serve(line);
        }
        close(connection);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void)
{
    static char path[108];
    const char *given = getenv("TRIM_SOCKET");
    if (!given)
        return;
    snprintf(path, sizeof path, "%s", given);
    unsetenv("TRIM_SOCKET");
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, path) != 0)
        abort();
}
