// SPDX-License-Identifier: MIT
// A program that knows every block malloc ever gave to it, to libc and to the loader: its own malloc, which is the process's,
// notes each and passes it on to libc's. What a snapshot finds in use must be this list, neither more nor less: no snapshot of the
// beginning has to tell what libc made for itself. A libc that dlmopen loaded has nobody else who asks it for memory.
//
// Threads take turns to fill and empty slots, from the libcs in any order; some end, and what they hold stays. Lists and
// slots lie outside malloc (mmap), and it prints with write().
//
// Commands, one a line on stdin; each answer ends with a line "end":
//   go         churn; end every fourth thread; churn again; park
//   held       "held ADDRESS REQUESTED USABLE" for every block in use
//   fork       a child that does nothing: "child PID". Its memory is a copy, and so is the list
//   fit N      dirties the main arena's top, and has it begin N bytes before a page begins. Before anything else
//   fence      in the last libc loaded: leaves 48 bytes of the first segment of its main arena, and has it go on elsewhere
//   move       an aligned chunk that realloc moved, and whose map is as large again as it was made. It and its map's start
//              leave no power of two to tell the chunk's place by
//   trim       malloc_trim(0) in every libc
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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
#include <unistd.h>

enum { SPACES = 3, MAX_THREADS = 64, SLOTS = 2048, BLOCKS = 1 << 18 };

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

// Every block in use, by open addressing.
struct block {
    uintptr_t address; // 0: never used; 1: no longer used
    size_t size;
};
static struct block *blocks;
static atomic_flag blocks_busy = ATOMIC_FLAG_INIT;

static void die(const char *what)
{
    dprintf(STDERR_FILENO, "variety: %s\n", what);
    _exit(1);
}

static void *table(size_t bytes)
{
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        die("mmap");
    return address;
}

static struct block *place_of(uintptr_t address, bool to_add)
{
    for (size_t i = (address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 46, n = 0; n < BLOCKS; i++, n++) {
        struct block *b = &blocks[i % BLOCKS];
        if (b->address == address || (to_add ? b->address <= 1 : b->address == 0))
            return b;
    }
    die("too many blocks");
    return NULL;
}

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&blocks_busy, memory_order_acquire))
        ;
    if (!blocks)
        blocks = table(BLOCKS * sizeof *blocks);
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&blocks_busy, memory_order_release);
}

static void *note(void *block, size_t size)
{
    if (!block)
        return NULL;
    lock();
    *place_of((uintptr_t)block, true) = (struct block){(uintptr_t)block, size};
    unlock();
    return block;
}

static void forget(void *block)
{
    lock();
    struct block *b = place_of((uintptr_t)block, false);
    if (b->address != (uintptr_t)block)
        die("a block is freed that nobody has");
    b->address = 1;
    unlock();
}

void *malloc(size_t size)
{
    return note(__libc_malloc(size), size);
}

void *calloc(size_t count, size_t size)
{
    return note(__libc_calloc(count, size), count * size);
}

void *memalign(size_t alignment, size_t size)
{
    return note(__libc_memalign(alignment, size), size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block)
{
    if (!block)
        return;
    forget(block);
    __libc_free(block);
}

void *realloc(void *block, size_t size)
{
    if (block)
        forget(block);
    return note(__libc_realloc(block, size), size);
}

// One libc's malloc as the workers call it.
struct space {
    void *(*malloc)(size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void (*free)(void *);
    int (*malloc_trim)(size_t);
};
static struct space spaces[SPACES] = {
    {__libc_malloc, __libc_realloc, __libc_memalign, __libc_free, malloc_trim},
};
static unsigned space_count = 1;

static void find(void *libc, const char *name, void *out)
{
    void *symbol = dlsym(libc, name);
    if (!symbol)
        die(name);
    memcpy(out, &symbol, sizeof symbol);
}

static void add_space(void)
{
    void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    int (*mallopt)(int, int);
    struct space *s = &spaces[space_count++];
    if (!libc)
        die("dlmopen");
    find(libc, "malloc", &s->malloc);
    find(libc, "realloc", &s->realloc);
    find(libc, "memalign", &s->memalign);
    find(libc, "free", &s->free);
    find(libc, "malloc_trim", &s->malloc_trim);
    // Up to 2.33 the first call sets malloc up, and threads must not race for it. This one allocates nothing.
    find(libc, "mallopt", &mallopt);
    mallopt(M_CHECK_ACTION, 0);
}

struct slot {
    atomic_flag busy;
    unsigned char *block;
    const struct space *space;
};
static struct slot *slots;

struct worker {
    uint64_t random;
    pthread_t thread;
    bool ends;
};
static struct worker workers[MAX_THREADS + 1]; // the last is the main thread
static unsigned worker_count, operations = 4000, biggest_log2 = 20;

static uint64_t roll(struct worker *w) // splitmix64
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// As many in each octave up to 8 KiB; one in 32 of any size.
static size_t some_size(struct worker *w)
{
    unsigned log2 = roll(w) % 32 == 0 || biggest_log2 < 13 ? biggest_log2 : 13;
    size_t low = (size_t)1 << (roll(w) % log2);
    return low + roll(w) % low;
}

static void step(struct worker *w)
{
    struct slot *s = &slots[roll(w) % SLOTS];
    if (atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire))
        return;
    size_t size = some_size(w);
    uint64_t kind = roll(w) % 16;
    bool filled = s->block != NULL;
    if (!filled) {
        s->space = &spaces[roll(w) % space_count];
        s->block = kind == 0 ? s->space->memalign((size_t)32 << (roll(w) % 10), size) : s->space->malloc(size);
    } else if (kind < 3) {
        forget(s->block);
        s->block = s->space->realloc(s->block, size);
    } else if (kind < 10) {
        forget(s->block);
        s->space->free(s->block);
        s->block = NULL;
    }
    if ((!filled || kind < 3) && s->block) {
        note(s->block, size);
        memset(s->block, 0x5a, roll(w) % 2 ? size : 1);
    }
    atomic_flag_clear_explicit(&s->busy, memory_order_release);
}

// The gate behind which workers wait.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned round, busy;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    for (unsigned round = 0;;) {
        pthread_mutex_lock(&gate.lock);
        while (gate.round == round)
            pthread_cond_wait(&gate.changed, &gate.lock);
        round = gate.round;
        pthread_mutex_unlock(&gate.lock);
        for (unsigned i = 0; i < operations; i++)
            step(w);
        pthread_mutex_lock(&gate.lock);
        gate.busy--;
        pthread_cond_broadcast(&gate.changed);
        pthread_mutex_unlock(&gate.lock);
        if (w->ends)
            return NULL;
    }
}

static void run_round(void)
{
    pthread_mutex_lock(&gate.lock);
    for (unsigned i = 0; i < worker_count; i++)
        gate.busy += gate.round == 0 || !workers[i].ends;
    gate.round++;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    for (unsigned i = 0; i < operations; i++)
        step(&workers[MAX_THREADS]);
    pthread_mutex_lock(&gate.lock);
    while (gate.busy > 0)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void go(void)
{
    run_round();
    for (unsigned i = 0; i < worker_count; i++)
        if (workers[i].ends)
            pthread_join(workers[i].thread, NULL);
    run_round();
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[128];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(1);
}

static void report_held(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].address > 1)
            say("held %#lx %zu %zu\n", (unsigned long)blocks[i].address, blocks[i].size,
                malloc_usable_size((void *)blocks[i].address));
}

// Allocates until the top of a main arena that nobody else uses now begins `left` bytes before a multiple of `unit`. Nothing
// is free there but the top.
static void fit(const struct space *s, uintptr_t left, uintptr_t unit)
{
    enum { PIECE = 65536, LEAST = 2048 }; // neither mmapped nor from a cache
    for (uintptr_t size = LEAST; size != 0;) {
        char *block = note(s->malloc(size - 8), size - 8);
        if (!block)
            die("malloc");
        uintptr_t top = (uintptr_t)block - 16 + size;
        size = (-left - top) & (unit - 1);
        if (size != 0 && size < LEAST)
            size += unit > PIECE ? 0 : unit;
        size = size > 2 * PIECE ? PIECE : size;
    }
}

static void fit_top(uintptr_t left)
{
    enum { BYTES = 100000 };
    char *block = spaces[0].malloc(BYTES);
    memset(block, 0x5a, BYTES);
    spaces[0].free(block); // into the top
    fit(&spaces[0], left, (uintptr_t)sysconf(_SC_PAGESIZE));
}

// What brk does not give, malloc takes in maps of 1 MiB. The tcache's chunk is the first in it.
static void leave_segment(void)
{
    enum { SEGMENT = 1 << 20, ENOUGH = 4096 };
    const struct space *s = &spaces[space_count - 1];
    char *first = note(s->malloc(ENOUGH), ENOUGH);
    uintptr_t start = (uintptr_t)first & ~(uintptr_t)4095;
    for (uintptr_t left = start + SEGMENT - (uintptr_t)first + 16 - 4112; left != 48;) {
        uintptr_t size = left - 48 > 65536 + 2048 ? 65536 : left - 48;
        if (!note(s->malloc(size - 8), size - 8))
            die("malloc");
        left -= size;
    }
    note(s->malloc(65536), 65536);
}

// Wants a threshold below 32 KiB. The distance of three pages from the map's start is no power of two, nor is the chunk's
// place a multiple of one above a page's: a snapshot cannot guess it.
static void move(void)
{
    enum { PAGE = 4096, ALIGNMENT = 4 * PAGE, SIZE = 8 * PAGE, LARGE = 1 << 20, LEAD = 3 * PAGE - 16, TRIES = 1000 };
    const struct space *s = &spaces[0];
    for (int i = 0; i < TRIES; i++) {
        uintptr_t *block = s->memalign(ALIGNMENT, SIZE);
        uintptr_t lead = block[-2];
        uintptr_t start = (uintptr_t)(block - 2) - lead;
        uintptr_t length = lead + (block[-1] & ~(uintptr_t)7);
        if (lead == LEAD) {
            // Below what is too little for the map's last page.
            block = s->realloc(s->realloc(block, LARGE + (size_t)i * PAGE), length - lead - 32);
            uintptr_t moved = (uintptr_t)(block - 2) - lead;
            if (moved != start && moved % (2 * PAGE) == 0 && lead + (block[-1] & ~(uintptr_t)7) == length) {
                note(block, length - lead - 32);
                return;
            }
        }
        note(block, 1);
    }
    die("no aligned chunk was moved");
}

static int start_child(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    return child;
}

static void parse(int argc, char **argv, unsigned *threads, unsigned *more_spaces, uint64_t *seed)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--threads") == 0 && value <= MAX_THREADS)
            *threads = (unsigned)value;
        else if (strcmp(argv[i], "--spaces") == 0 && value < SPACES)
            *more_spaces = (unsigned)value;
        else if (strcmp(argv[i], "--seed") == 0)
            *seed = value;
        else if (strcmp(argv[i], "--operations") == 0)
            operations = (unsigned)value;
        else if (strcmp(argv[i], "--biggest-log2") == 0 && value > 0 && value < 40)
            biggest_log2 = (unsigned)value;
        else
            die("unknown option");
    }
}

static void answer(const char *command)
{
    if (strcmp(command, "go") == 0)
        go();
    else if (strcmp(command, "held") == 0)
        report_held();
    else if (strcmp(command, "fork") == 0)
        say("child %d\n", start_child());
    else if (strncmp(command, "fit ", 4) == 0)
        fit_top(strtoul(command + 4, NULL, 10));
    else if (strcmp(command, "fence") == 0)
        leave_segment();
    else if (strcmp(command, "move") == 0)
        move();
    else if (strcmp(command, "trim") == 0)
        for (unsigned i = 0; i < space_count; i++)
            spaces[i].malloc_trim(0);
    else
        die("unknown command");
    say("end\n");
}

int main(int argc, char **argv)
{
    unsigned threads = 0;
    unsigned more_spaces = 0;
    uint64_t seed = 1;
    parse(argc, argv, &threads, &more_spaces, &seed);
    slots = table(SLOTS * sizeof *slots);
    workers[MAX_THREADS].random = seed;
    for (unsigned i = 0; i < more_spaces; i++)
        add_space();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (worker_count = 0; worker_count < threads; worker_count++) {
        struct worker *w = &workers[worker_count];
        *w = (struct worker){.random = seed * 1000 + worker_count, .ends = worker_count % 4 == 3};
        if (pthread_create(&w->thread, &attributes, worker_main, w) != 0)
            die("pthread_create");
    }
    say("ready\nend\n");
    char line[64];
    for (size_t used = 0;;) {
        if (read(STDIN_FILENO, line + used, 1) != 1)
            return 0;
        if (line[used] != '\n') {
            used += used + 2 < sizeof line;
            continue;
        }
        line[used] = '\0';
        used = 0;
        answer(line);
    }
}
