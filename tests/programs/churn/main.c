// SPDX-License-Identifier: MIT
// A program whose heap is known: it churns, then parks, and tells what it holds, for tests to hold the inspector against.
// Its own records lie outside malloc (mmap), and it prints with write(), so that every chunk in use is one it asked for, or
// one that libc made for itself before "ready".
//
// Commands, one a line on stdin; each answer ends with a line "end":
//   go         run the scenario, then park every thread
//   churn N    N more steps of the default scenario on the threads that live
//   held       "held ADDRESS REQUESTED USABLE" for every block it holds
//   freed      "freed ADDRESS REQUESTED ORDINAL" for what the scenario `caches` freed: ORDINAL counts within a thread and size
//   threads    "thread POINTER" for each that lives, the main thread first: pthread_self()
//   mallinfo   "NAME VALUE" for each field of mallinfo2, or of mallinfo before 2.33
//   trim       malloc_trim(0), and what it returned
//   lock       mlockall, now and for what comes
//   advise N   madvise(N) on the whole pages inside the blocks it holds: "advised BLOCKS"
//   protect    mprotect on them: a third each to nothing, read, and read, write and execute
//   fork       a child that shares its memory, and does nothing: "child PID"
//   abort      for a core
//   exit
#define _GNU_SOURCE
#include "churn.h"

#include <dlfcn.h>
#include <getopt.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // mallinfo: there is no other before 2.33

struct options option = {
    .scenario = "churn", .seed = 1, .threads = 4, .operations = 20000, .slots = 4096, .biggest_log2 = BIGGEST_LOG2};
struct slot *slots;
struct freed *freed;
atomic_uint freed_count;

static struct worker workers[MAX_THREADS];
static unsigned worker_count;

// The gate behind which workers wait for work. `round` 0 is before the start.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned round, busy, operations;
    bool half; // a half of the scenario, as against a "churn" command
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    // Lines go out in large pieces; "end", which every answer has, sends them.
    static char out[1 << 16];
    static size_t used;
    memcpy(out + used, line, (size_t)length);
    used += (size_t)length;
    if (used + sizeof line < sizeof out && strcmp(line, "end\n") != 0)
        return;
    for (size_t sent = 0; sent < used;) {
        ssize_t n = write(STDOUT_FILENO, out + sent, used - sent);
        if (n <= 0)
            _exit(1);
        sent += (size_t)n;
    }
    used = 0;
}

void die(const char *what)
{
    dprintf(STDERR_FILENO, "churn: %s\n", what);
    _exit(1);
}

static void *table(size_t bytes)
{
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        die("mmap");
    return address;
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    for (unsigned round = 0;;) {
        pthread_mutex_lock(&gate.lock);
        while (gate.round == round)
            pthread_cond_wait(&gate.changed, &gate.lock);
        round = gate.round;
        unsigned operations = gate.operations;
        bool half = gate.half;
        pthread_mutex_unlock(&gate.lock);

        if (!half)
            churn(w, operations);
        else if (round == 2 || !w->late)
            work(w, operations, round == 2);

        pthread_mutex_lock(&gate.lock);
        gate.busy--;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
        if (round == 1 && w->ends)
            return NULL;
    }
}

// Has every living worker do something, or the main thread when there are none, and waits until all are parked again.
static void run_round(unsigned operations, bool half)
{
    static struct worker self;
    self.random = self.random ? self.random : option.seed;
    pthread_mutex_lock(&gate.lock);
    gate.busy = 0;
    for (unsigned i = 0; i < worker_count; i++)
        gate.busy += gate.round == 0 || !workers[i].ends;
    gate.operations = gate.busy ? operations / gate.busy : 0;
    gate.half = half;
    gate.round++;
    pthread_cond_broadcast(&gate.changed);
    while (gate.busy > 0)
        pthread_cond_wait(&gate.changed, &gate.lock);
    bool second_half = gate.round == 2;
    pthread_mutex_unlock(&gate.lock);
    if (worker_count == 0) {
        if (half)
            work(&self, operations, second_half);
        else
            churn(&self, operations);
    }
}

static void go(void)
{
    if (strcmp(option.scenario, "withheld") == 0) {
        // Raises the trim threshold to 64 MiB: twice the size of the largest mmapped block ever freed. volatile: the
        // compiler may leave out a malloc that nobody inspects.
        void *volatile block = malloc(((size_t)32 << 20) - 65536);
        free(block);
    }
    run_round(option.operations / 2, true);
    for (unsigned i = 0; i < worker_count; i++)
        if (workers[i].ends)
            pthread_join(workers[i].thread, NULL);
    if (strcmp(option.scenario, "no-brk") == 0)
        block_brk();
    run_round(option.operations / 2, true);
}

// All threads exist before anything is churned, the late ones too: whatever libc allocates for them is then in the baseline.
static void create_workers(void)
{
    bool some_end = strcmp(option.scenario, "churn") == 0 || strcmp(option.scenario, "burst") == 0;
    worker_count = option.threads;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (unsigned i = 0; i < worker_count; i++) {
        struct worker *w = &workers[i];
        *w = (struct worker){.random = option.seed * 1000 + i};
        w->ends = some_end && i % 4 == 3;
        w->late = some_end && i % 4 == 2;
        if (pthread_create(&w->thread, &attributes, worker_main, w) != 0)
            die("pthread_create");
    }
}

static void report_threads(void)
{
    say("thread %#lx\n", (unsigned long)pthread_self());
    for (unsigned i = 0; i < worker_count; i++)
        if (!workers[i].ends)
            say("thread %#lx\n", (unsigned long)workers[i].thread);
}

static void report_held(void)
{
    for (unsigned i = 0; i < option.slots; i++)
        if (slots[i].block)
            say("held %p %zu %zu\n", (void *)slots[i].block, slots[i].size, malloc_usable_size(slots[i].block));
}

// As mallinfo2, which is younger than the libc that this program is linked with.
struct wide_info {
    size_t field[10];
};
static struct wide_info (*wide_mallinfo)(void);

static void report_mallinfo(void)
{
    static const char *const names[] = {"arena",   "ordblks", "smblks",   "hblks",    "hblkhd",
                                        "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"};
    struct wide_info info;
    if (wide_mallinfo)
        info = wide_mallinfo();
    else {
        struct mallinfo narrow = mallinfo();
        int fields[10];
        memcpy(fields, &narrow, sizeof fields);
        for (unsigned i = 0; i < 10; i++)
            info.field[i] = (size_t)fields[i];
    }
    for (unsigned i = 0; i < 10; i++)
        say("%s %zu\n", names[i], info.field[i]);
}

static void parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"scenario", required_argument, NULL, 's'},
        {"seed", required_argument, NULL, 'r'},
        {"threads", required_argument, NULL, 't'},
        {"operations", required_argument, NULL, 'o'},
        {"slots", required_argument, NULL, 'l'},
        {"biggest-log2", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (o) {
        case 's':
            option.scenario = optarg;
            break;
        case 'r':
            option.seed = strtoull(optarg, NULL, 10);
            break;
        case 't':
            option.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'o':
            option.operations = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            option.slots = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'b':
            option.biggest_log2 = (unsigned)strtoul(optarg, NULL, 10);
            break;
        default:
            die("unknown option");
        }
    if (option.threads > MAX_THREADS || option.slots == 0 || option.biggest_log2 == 0 ||
        option.biggest_log2 > BIGGEST_LOG2)
        die("option out of range");
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    slots = table(option.slots * sizeof *slots);
    freed = table(MAX_FREED * sizeof *freed);
    void *symbol = dlsym(RTLD_DEFAULT, "mallinfo2"); // here, since a dlsym that fails allocates
    memcpy(&wide_mallinfo, &symbol, sizeof symbol);
    create_workers();
    say("ready\n");
    say("end\n");

    char line[64];
    for (size_t used = 0;;) {
        ssize_t n = read(STDIN_FILENO, line + used, 1); // a byte at a time: commands are few
        if (n <= 0)
            return 0;
        if (line[used] != '\n') {
            used += used + 2 < sizeof line;
            continue;
        }
        line[used] = '\0';
        used = 0;
        if (strcmp(line, "go") == 0)
            go();
        else if (strncmp(line, "churn ", 6) == 0)
            run_round((unsigned)strtoul(line + 6, NULL, 10), false);
        else if (strcmp(line, "held") == 0)
            report_held();
        else if (strcmp(line, "freed") == 0)
            for (unsigned i = 0; i < freed_count; i++)
                say("freed %p %zu %u\n", freed[i].block, freed[i].size, freed[i].ordinal);
        else if (strcmp(line, "threads") == 0)
            report_threads();
        else if (strcmp(line, "mallinfo") == 0)
            report_mallinfo();
        else if (strcmp(line, "trim") == 0)
            say("trimmed %d\n", malloc_trim(0));
        else if (strcmp(line, "lock") == 0)
            lock_memory();
        else if (strncmp(line, "advise ", 7) == 0)
            say("advised %u\n", advise_blocks((int)strtol(line + 7, NULL, 10)));
        else if (strcmp(line, "protect") == 0)
            protect_blocks();
        else if (strcmp(line, "fork") == 0)
            say("child %d\n", fork_and_wait());
        else if (strcmp(line, "abort") == 0)
            abort();
        else if (strcmp(line, "exit") == 0)
            _exit(0);
        else
            die("unknown command");
        say("end\n");
    }
}
