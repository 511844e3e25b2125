// SPDX-License-Identifier: MIT
// Allocates and frees in several threads, at random, blocks that go from one thread to another included, and writes each of its
// operations down in a log of its own: a file that is there already, mapped, so that the log outlives the program.
//
//   recorded LOG THREADS OPERATIONS [starve]
//
// OPERATIONS 0: until it is killed, and slowly.
// starve: gives the recorder's thread the last of one processor.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_THREADS = 16, KEPT = 64, HANDED = 32, UNLIMITED = 0 };
enum kind { FREE, MALLOC, CALLOC, ALIGNED, RESIZED, MOVED_FROM, MOVED_TO };

struct entry {
    uint64_t address;
    uint64_t size_and_kind; // the kind in the upper 8 bits
};

struct log {
    uint64_t threads, room; // entries of each thread
    _Atomic uint64_t counts[MOST_THREADS];
    struct entry entries[];
};

static struct log *written;
static uint64_t operations;
static _Atomic(void *) handed[HANDED]; // from one thread to another
static pthread_barrier_t together;

struct worker {
    unsigned index;
    uint64_t random;
    void *kept[KEPT];
};
static struct worker workers[MOST_THREADS];

// Without the tag that malloc's pointers have with memory tagging (aarch64's MTE).
static uint64_t untagged(const void *memory)
{
    return (uint64_t)(uintptr_t)memory & (UINT64_MAX >> 8);
}

static void note(const struct worker *w, enum kind kind, const void *address, size_t size)
{
    uint64_t count = atomic_load_explicit(&written->counts[w->index], memory_order_relaxed);
    if (count == written->room)
        _exit(3);
    written->entries[w->index * written->room + count] = (struct entry){untagged(address), (uint64_t)kind << 56 | size};
    atomic_store_explicit(&written->counts[w->index], count + 1, memory_order_release);
}

static uint64_t next(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

// Returns a size that nothing but this program asks for: 5 more than a multiple of 16.
static size_t any_size(struct worker *w)
{
    size_t most = next(w) % 64 == 0 ? 300000 : 600;
    return next(w) % most / 16 * 16 + 5;
}

static void *allocate(struct worker *w)
{
    size_t size = any_size(w);
    void *memory;
    switch (next(w) % 8) {
    case 0:
        memory = calloc(1, size);
        note(w, CALLOC, memory, size);
        return memory;
    case 1:
        if (posix_memalign(&memory, 64, size) != 0)
            _exit(4);
        note(w, ALIGNED, memory, size);
        return memory;
    default:
        memory = malloc(size);
        note(w, MALLOC, memory, size);
        return memory;
    }
}

static void release(struct worker *w, void *memory)
{
    if (memory)
        note(w, FREE, memory, 0);
    free(memory);
}

static void *resize(struct worker *w, void *memory)
{
    size_t size = any_size(w);
    uintptr_t old = (uintptr_t)memory;
    void *moved = realloc(memory, size);
    if (untagged(moved) == untagged((void *)old)) {
        note(w, RESIZED, moved, size);
    } else {
        note(w, MOVED_FROM, (void *)old, 0);
        note(w, MOVED_TO, moved, size);
    }
    return moved;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    pthread_barrier_wait(&together);
    for (uint64_t i = 0; operations == UNLIMITED || i < operations; i++) {
        void **place = &w->kept[next(w) % KEPT];
        if (operations == UNLIMITED && i % 32 == 0)
            usleep(1000); // who kills it has the log to read
        switch (next(w) % 8) {
        case 0:
            if (*place) {
                *place = resize(w, *place);
                break;
            }
            *place = allocate(w);
            break;
        case 1:
        case 2: // what another thread has allocated is kept here, and freed
            *place = atomic_exchange(&handed[next(w) % HANDED], *place);
            break;
        case 3:
            release(w, allocate(w));
            break;
        default:
            release(w, *place);
            *place = allocate(w);
        }
    }
    pthread_barrier_wait(&together);
    return NULL;
}

static void starve(void)
{
    cpu_set_t one;
    const struct sched_param parameter = {0};
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        int file = open(path, O_RDONLY);
        if (file >= 0 && read(file, name, sizeof name - 1) > 0 && strcmp(name, "arenascope-rec\n") == 0)
            sched_setscheduler(atoi(task->d_name), SCHED_IDLE, &parameter);
        if (file >= 0)
            close(file);
        if (atoi(task->d_name) > 0)
            sched_setaffinity(atoi(task->d_name), sizeof one, &one);
    }
    closedir(tasks);
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_THREADS];
    if (argc < 4)
        return 2;
    unsigned count = (unsigned)atoi(argv[2]);
    operations = (uint64_t)atoll(argv[3]);
    int file = open(argv[1], O_RDWR);
    off_t size = lseek(file, 0, SEEK_END);
    written = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (written == MAP_FAILED || count == 0 || count > MOST_THREADS)
        return 2;
    written->threads = count;
    written->room = ((uint64_t)size - sizeof *written) / sizeof(struct entry) / count;
    if (argc > 4)
        starve();
    pthread_barrier_init(&together, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        workers[i].index = i;
        workers[i].random = 88172645463325252u + i * 7919;
        if (i > 0 && pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            return 1;
    }
    work(&workers[0]);
    for (unsigned i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
