// SPDX-License-Identifier: MIT
// Allocates by thousands of call stacks and knows each of them: writes down which functions of its own stand on the stack of each block
// that it keeps, innermost first, and the block's usable size. Then it waits.
//
//   sites FILE ACT...     acts: calls, thread, small, signal, coroutine, fork, many N (that many calls in four threads), and wait:
//                         for a file FILE.go, with a file FILE.waiting; what was allocated before is not written down. pointers:
//                         from now on also by pointers to malloc and its kin that were taken at the start, and by more of libc;
//                         nested: from now on by functions alone that call malloc in turn
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define TEXT "a string that is as long as other blocks"
enum { DEPTH = 14, SLOTS = 4000, CALLS = 40000, SMALL_STACK = 16384 };

struct walk {
    const char *path; // what is still to be called
    void *memory;
    size_t size;
    unsigned random;
    volatile int returned; // written behind each call, so that none is a jump
};
struct kept {
    char path[DEPTH + 2];
    const char *root;
    void *memory;
    bool early; // allocated before the wait
};
static struct kept all[16 * SLOTS];
static _Thread_local struct kept *kept = all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int next_part = 1;
static unsigned long asked; // bytes, by all leaves
static const char *leaves = "MCARSPJ";

// Copies, in no relocation's slot.
static void *(*volatile malloc_at)(size_t);
static void *(*volatile calloc_at)(size_t, size_t);
static void *(*volatile realloc_at)(void *, size_t);
static void *(*volatile memalign_at)(size_t, size_t);
static int (*volatile posix_at)(void **, size_t, size_t);
static void *(*volatile valloc_at)(size_t);
static void *(*volatile pvalloc_at)(size_t);

static void take(struct walk *w);

#define FUNCTION(name, before)                                                                                         \
    static __attribute__((noinline)) void name(struct walk *w)                                                         \
    {                                                                                                                  \
        before;                                                                                                        \
        take(w);                                                                                                       \
        w->returned++;                                                                                                 \
    }
#define LEAF(name, expression)                                                                                         \
    static __attribute__((noinline)) void name(struct walk *w)                                                         \
    {                                                                                                                  \
        w->memory = (expression);                                                                                      \
        w->returned++;                                                                                                 \
    }
LEAF(leaf_malloc, malloc(w->size))
LEAF(leaf_calloc, calloc(1, w->size))
LEAF(leaf_aligned, aligned_alloc(64, (w->size + 63) & ~(size_t)63))
LEAF(leaf_realloc, realloc(malloc(24), w->size))
LEAF(leaf_string, strdup(TEXT))
static __attribute__((noinline)) void leaf_posix(struct walk *w)
{
    if (posix_memalign(&w->memory, 32, w->size) != 0)
        abort();
    w->returned++;
}
// glibc may call malloc from realloc, and from memalign with a small alignment, in these: one block each nevertheless.
LEAF(leaf_pointer, malloc_at(w->size))
LEAF(leaf_pointer_calloc, calloc_at(2, w->size / 2))
LEAF(leaf_pointer_realloc, realloc_at(NULL, w->size))
LEAF(leaf_pointer_grown, realloc_at(malloc_at(24), w->size + 200000))
LEAF(leaf_pointer_small, memalign_at(8, w->size))
LEAF(leaf_pointer_valloc, valloc_at(w->size))
LEAF(leaf_pointer_pvalloc, pvalloc_at(16))
static __attribute__((noinline)) void leaf_pointer_posix(struct walk *w)
{
    if (posix_at(&w->memory, 8, w->size) != 0)
        abort();
    w->returned++;
}
static __attribute__((noinline)) void leaf_line(struct walk *w)
{
    FILE *file = fmemopen((char *)TEXT "\n", sizeof TEXT, "r");
    char *line = NULL;
    size_t room = 0;
    if (!file || getline(&line, &room, file) <= 0)
        abort();
    fclose(file);
    w->memory = line;
    w->returned++;
}
static __attribute__((noinline)) void leaf_print(struct walk *w)
{
    char *text;
    if (asprintf(&text, "%zu %s", w->size, TEXT) <= 0)
        abort();
    w->memory = text;
    w->returned++;
}
// Jumps to leaf_malloc: it is on no stack.
static __attribute__((noinline)) void jumps(struct walk *w)
{
    leaf_malloc(w);
}
FUNCTION(left, (void)0)
FUNCTION(right, volatile char room[72]; room[0] = 1; (void)room[0])
FUNCTION(padded, volatile char *room = alloca(16 + w->random % 256); room[0] = 1)

static inline __attribute__((always_inline)) void take(struct walk *w)
{
    switch (*w->path++) {
    case 'l':
        left(w);
        break;
    case 'r':
        right(w);
        break;
    case 'p':
        padded(w);
        break;
    case 'M':
        leaf_malloc(w);
        break;
    case 'C':
        leaf_calloc(w);
        break;
    case 'A':
        leaf_aligned(w);
        break;
    case 'R':
        leaf_realloc(w);
        break;
    case 'S':
        leaf_string(w);
        break;
    case 'P':
        leaf_posix(w);
        break;
    case 'J':
        jumps(w);
        break;
    case 'a':
        leaf_pointer(w);
        break;
    case 'b':
        leaf_pointer_calloc(w);
        break;
    case 'c':
        leaf_pointer_realloc(w);
        break;
    case 'd':
        leaf_pointer_grown(w);
        break;
    case 'e':
        leaf_pointer_small(w);
        break;
    case 'f':
        leaf_pointer_valloc(w);
        break;
    case 'g':
        leaf_pointer_pvalloc(w);
        break;
    case 'h':
        leaf_pointer_posix(w);
        break;
    case 'i':
        leaf_line(w);
        break;
    case 'k':
        leaf_print(w);
        break;
    default:
        abort();
    }
}

static unsigned draw(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// One block more, in a slot of this thread's; the block that was there is freed.
static inline __attribute__((always_inline)) void allocate(const char *root, unsigned *state)
{
    struct kept *k = &kept[draw(state) % SLOTS];
    struct walk w = {.path = k->path, .random = *state};
    unsigned length = draw(state) % DEPTH;
    unsigned size = draw(state);
    w.size = size % 1000 == 0 ? size % 300000 : 16 + size % 400;
    free(k->memory);
    for (unsigned i = 0; i < length; i++)
        k->path[i] = "llrrrp"[draw(state) % 6];
    k->path[length] = leaves[draw(state) % strlen(leaves)];
    k->path[length + 1] = '\0';
    k->root = root;
    take(&w);
    unsigned long bytes = k->path[length] == 'S'   ? sizeof TEXT
                          : k->path[length] == 'A' ? (w.size + 63) & ~(size_t)63
                          : k->path[length] == 'R' ? 24 + w.size
                                                   : w.size;
    __atomic_fetch_add(&asked, bytes, __ATOMIC_RELAXED);
    k->memory = w.memory;
    k->early = false;
}

static void own_part(void)
{
    pthread_mutex_lock(&lock);
    kept = all + (size_t)next_part++ * SLOTS;
    pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void calls(int count)
{
    unsigned state = (unsigned)(kept - all) + 1;
    for (int i = 0; i < count; i++)
        allocate("calls main", &state);
}

static void *in_thread(void *count)
{
    unsigned state = 77;
    own_part();
    for (int i = 0; i < *(int *)count; i++)
        allocate("in_thread", &state);
    return NULL;
}

static void start(int count, int threads, size_t stack)
{
    pthread_t thread[4];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack)
        pthread_attr_setstacksize(&attributes, stack);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], &attributes, in_thread, &count) != 0)
            abort();
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

static void handler(int signal)
{
    static unsigned state = 99;
    (void)signal;
    allocate("handler signals main", &state);
}

static __attribute__((noinline)) void signals(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 1000; i++) {
        if (i == 500) { // the rest on a stack of its own
            stack_t stack = {.ss_size = SMALL_STACK};
            stack.ss_sp = mmap(NULL, SMALL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            sigaltstack(&stack, NULL);
        }
        raise(SIGUSR1);
    }
}

static ucontext_t outside, inside;

static void coroutine(void)
{
    unsigned state = 55;
    for (;;) {
        allocate("coroutine", &state);
        swapcontext(&inside, &outside);
    }
}

static void coroutines(void)
{
    char *room = mmap(NULL, 3 * SMALL_STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room + SMALL_STACK, SMALL_STACK, PROT_READ | PROT_WRITE);
    getcontext(&inside);
    inside.uc_stack.ss_sp = room + SMALL_STACK;
    inside.uc_stack.ss_size = SMALL_STACK;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < 1000; i++)
        swapcontext(&outside, &inside);
    munmap(room, (size_t)3 * SMALL_STACK);
}

static const char *name_of(char letter)
{
    switch (letter) {
    case 'l':
        return "left";
    case 'r':
        return "right";
    case 'p':
        return "padded";
    case 'C':
        return "leaf_calloc";
    case 'A':
        return "leaf_aligned";
    case 'R':
        return "leaf_realloc";
    case 'S':
        return "leaf_string";
    case 'P':
        return "leaf_posix";
    case 'a':
        return "leaf_pointer";
    case 'b':
        return "leaf_pointer_calloc";
    case 'c':
        return "leaf_pointer_realloc";
    case 'd':
        return "leaf_pointer_grown";
    case 'e':
        return "leaf_pointer_small";
    case 'f':
        return "leaf_pointer_valloc";
    case 'g':
        return "leaf_pointer_pvalloc";
    case 'h':
        return "leaf_pointer_posix";
    case 'i':
        return "leaf_line";
    case 'k':
        return "leaf_print";
    default:
        return "leaf_malloc";
    }
}

static void write_truth(const char *name, int child)
{
    static char buffer[1 << 16]; // so that writing does not allocate
    char path[4096];
    snprintf(path, sizeof path, child ? "%s.child" : "%s", name);
    FILE *out = fopen(path, "w");
    setvbuf(out, buffer, _IOFBF, sizeof buffer);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct kept *k = &all[i];
        if (!k->memory || k->early)
            continue;
        fprintf(out, "%zu", malloc_usable_size(k->memory));
        for (size_t at = strlen(k->path); at > 0; at--)
            fprintf(out, " %s", name_of(k->path[at - 1]));
        fprintf(out, " %s\n", k->root);
    }
    fprintf(out, "end %d %lu\n", getpid(), asked);
    fclose(out);
}

static void wait_to_go(const char *name)
{
    char path[4096];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i].early = all[i].memory != NULL;
    snprintf(path, sizeof path, "%s.waiting", name);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof path, "%s.go", name);
    while (access(path, F_OK) != 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    int child = 0;
    malloc_at = malloc;
    calloc_at = calloc;
    realloc_at = realloc;
    memalign_at = memalign;
    posix_at = posix_memalign;
    valloc_at = valloc;
    pvalloc_at = pvalloc;
    for (int i = 2; i < argc; i++) {
        const char *act = argv[i];
        if (strcmp(act, "calls") == 0)
            calls(CALLS);
        else if (strcmp(act, "thread") == 0)
            start(CALLS, 4, 0);
        else if (strcmp(act, "small") == 0)
            start(1000, 1, SMALL_STACK);
        else if (strcmp(act, "signal") == 0)
            signals();
        else if (strcmp(act, "coroutine") == 0)
            coroutines();
        else if (strcmp(act, "many") == 0)
            start(atoi(argv[++i]), 4, 0);
        else if (strcmp(act, "wait") == 0)
            wait_to_go(argv[1]);
        else if (strcmp(act, "pointers") == 0)
            leaves = "MCARSPJabcdefghik";
        else if (strcmp(act, "nested") == 0)
            leaves = "ceh";
        else if (strcmp(act, "fork") == 0)
            child |= fork() == 0;
        else if (strcmp(act, "leave") == 0)
            return 0;
    }
    write_truth(argv[1], child);
    for (;;)
        pause();
}
