// SPDX-License-Identifier: MIT
// Threads that allocate and free as fast as they can, and know every byte of what they hold: whoever gives back a page that is
// in use is found out. Told what to do by lines on stdin, each answered by lines and "end":
//   storm SECONDS    all threads at it, then parked; says how many steps they took
//   free PERCENT     frees that share of what is held
//   check            inspects every byte that is held
//   fork COUNT       during a second of storm, forks children that check all they got, and use malloc
//   comb COUNT SIZE  frees COUNT blocks of a size, with one in use behind each
//   sort             has malloc put what is unsorted into its bins
//   lock             locks all memory, now and later
//   held             "held ADDRESS SIZE USABLE" of every block
// Usage: trim_storm THREADS SLOTS SEED
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A block begins with its own size and seed; the rest follows from them.
struct block {
    uint64_t size, seed;
};

static _Atomic(struct block *) *slots;
static unsigned slot_count, thread_count;
static atomic_bool running;
static atomic_ulong steps;
static pthread_barrier_t begin, finish;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[256]; // stdio's own buffer would come from the heap
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(2);
}

static void wrong(const char *what, const void *where)
{
    say("WRONG %s at %p\n", what, where);
    abort();
}

static uint64_t scramble(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void fill(struct block *b, size_t from)
{
    uint64_t *words = (uint64_t *)b;
    for (size_t i = from; i < b->size / 8; i++)
        words[i] = b->seed + i;
}

static void check(const struct block *b, size_t size)
{
    const uint64_t *words = (const uint64_t *)b;
    for (size_t i = 2; i < size / 8; i++)
        if (words[i] != b->seed + i)
            wrong("a word of a block in use changed", words + i);
}

// Mostly small, some of many pages, a few that need a mapping of their own.
static size_t some_size(uint64_t random)
{
    unsigned kind = random % 64;
    size_t most = kind == 0 ? (size_t)1 << 20 : kind < 8 ? (size_t)1 << 16 : kind < 24 ? 6000 : 600;
    return (sizeof(struct block) + (random >> 8) % most + 7) & ~(size_t)7;
}

static struct block *make(uint64_t random)
{
    size_t size = some_size(random);
    struct block *b;
    if (random >> 62 == 0) {
        b = calloc(1, size);
        for (size_t i = 0; b && i < size / 8; i++)
            if (((uint64_t *)b)[i] != 0)
                wrong("calloc's memory is not zero", (uint64_t *)b + i);
    } else if (random >> 59 == 7) {
        b = aligned_alloc((size_t)64 << (random >> 8) % 8, size);
    } else {
        b = malloc(size);
    }
    if (!b)
        wrong("out of memory", NULL);
    b->size = size;
    b->seed = random;
    fill(b, 2);
    return b;
}

static void drop(struct block *b)
{
    if (b)
        check(b, b->size);
    free(b);
}

static void step(uint64_t *state)
{
    uint64_t random = scramble(*state += 0x9e3779b97f4a7c15);
    _Atomic(struct block *) *slot = &slots[(random >> 32) % slot_count];
    struct block *b = atomic_exchange(slot, NULL);
    if (b && random % 7 == 0) {
        size_t kept = b->size;
        size_t size = some_size(random >> 3);
        check(b, b->size);
        b = realloc(b, size);
        if (!b)
            wrong("out of memory", NULL);
        kept = kept < size ? kept : size;
        check(b, kept);
        b->size = size;
        fill(b, kept / 8);
    } else {
        drop(b);
        b = random % 5 < 3 ? make(random) : NULL;
    }
    drop(atomic_exchange(slot, b));
}

static void *worker(void *number)
{
    uint64_t state = (uintptr_t)number;
    for (;;) {
        pthread_barrier_wait(&begin);
        unsigned long count = 0;
        for (; running; count++)
            step(&state);
        steps += count;
        pthread_barrier_wait(&finish);
    }
    return NULL;
}

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static void children(unsigned count)
{
    for (unsigned n = 0; n < count; n++) {
        pid_t child = fork();
        if (child == 0) {
            // The other threads may have had blocks in hand; what lies in the slots is whole.
            uint64_t state = n;
            for (unsigned i = 0; i < slot_count; i++)
                if (slots[i])
                    check(slots[i], slots[i]->size);
            for (unsigned i = 0; i < 20000; i++)
                step(&state);
            malloc_trim(0);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            wrong("a child of fork came to harm", NULL);
    }
}

static void storm(double seconds, unsigned forks)
{
    steps = 0;
    running = true;
    pthread_barrier_wait(&begin);
    if (forks > 0)
        children(forks);
    nap(seconds);
    running = false;
    pthread_barrier_wait(&finish);
    say("steps %lu\n", (unsigned long)steps);
}

// What is in use between the free blocks is held for ever, as if it were in a slot.
static void comb(unsigned count, size_t size)
{
    void **blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], 0x5a, size);
        struct block *between = malloc(1104);
        *between = (struct block){.size = 1104, .seed = i};
        fill(between, 2);
        drop(atomic_exchange(&slots[i % slot_count], between));
    }
    for (unsigned i = 0; i < count; i++)
        free(blocks[i]);
    munmap(blocks, count * sizeof *blocks);
}

static void obey(const char *line)
{
    double number = 0;
    size_t size;
    unsigned count;
    uint64_t state = 1;
    if (sscanf(line, "storm %lf", &number) == 1)
        storm(number, 0);
    else if (sscanf(line, "comb %u %zu", &count, &size) == 2)
        comb(count, size);
    else if (strcmp(line, "sort") == 0) {
        void *volatile large = malloc(120000); // volatile: else the compiler may leave it out
        free(large);
    } else if (strcmp(line, "lock") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            wrong("memory cannot be locked", NULL);
    } else if (sscanf(line, "fork %lf", &number) == 1)
        storm(1, (unsigned)number);
    else if (sscanf(line, "free %lf", &number) == 1) {
        for (unsigned i = 0; i < slot_count; i++)
            if ((double)(scramble(state += 77) % 100) < number)
                drop(atomic_exchange(&slots[i], NULL));
    } else if (strcmp(line, "check") == 0 || strcmp(line, "held") == 0) {
        for (unsigned i = 0; i < slot_count; i++) {
            struct block *b = slots[i];
            if (!b)
                continue;
            check(b, b->size);
            if (line[0] == 'h')
                say("held %p %lu %zu\n", (void *)b, (unsigned long)b->size, malloc_usable_size(b));
        }
    } else {
        _exit(2);
    }
    say("end\n");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    thread_count = (unsigned)strtoul(argv[1], NULL, 10);
    slot_count = (unsigned)strtoul(argv[2], NULL, 10);
    slots = mmap(NULL, slot_count * sizeof *slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (thread_count == 0 || slot_count == 0 || slots == MAP_FAILED)
        return 2;
    pthread_barrier_init(&begin, NULL, thread_count + 1);
    pthread_barrier_init(&finish, NULL, thread_count + 1);
    for (unsigned i = 0; i < thread_count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)(uintptr_t)(strtoul(argv[3], NULL, 10) * 1000 + i)) != 0)
            return 2;
    }
    say("ready\nend\n");
    char line[64];
    for (size_t used = 0; read(STDIN_FILENO, line + used, 1) == 1;) {
        if (line[used] != '\n') {
            used += used + 2 < sizeof line;
            continue;
        }
        line[used] = '\0';
        used = 0;
        obey(line);
    }
    return 0;
}
