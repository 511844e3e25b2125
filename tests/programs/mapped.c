/* SPDX-License-Identifier: MIT */
/* Holds anonymous mappings in each way, and chunks through them. Prints "NAME ADDRESS" of each, then "ready", and waits. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRAMES = 20, BYTES = 1 << 20, HELD = 400, TRIES = 64 };

struct frame {
    void *memory;
    struct frame *next;
};
struct item {
    struct frame *leads;
    long number;
};
static struct frame *free_list;
struct item *items;         /* a mapping of which a part alone may be the array */
char *tries[TRIES];         /* not static: the compiler would leave it out */
static void *pool;          /* of which the first word leads to a chunk */
static uintptr_t disguised; /* a mapping that no pointer leads to */
static volatile uintptr_t key = 0x5a5a5a5a5a5a5a5a;

/* Apart from all others: the pages before and behind cannot be read. */
static char *apart(void)
{
    char *all = mmap(NULL, BYTES + (2 << 16), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = all + (1 << 16);
    if (all == MAP_FAILED || mprotect(memory, BYTES, PROT_READ | PROT_WRITE) != 0)
        exit(1);
    memset(memory, 0x11, BYTES);
    return memory;
}

static void *chunk_in(char *memory, size_t at, size_t size)
{
    void *chunk = malloc(size);
    memset(chunk, 0x02, size); /* no text */
    memcpy(memory + at, &chunk, sizeof chunk);
    return chunk;
}

static void add_frame(void)
{
    struct frame *f = malloc(sizeof *f);
    f->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(f->memory, 0x33, BYTES * 3 / 4);
    f->next = free_list;
    free_list = f;
}

/* Right behind a chunk that has a mapping of its own: the chunk takes what the mapping leaves of a hole. */
static char *behind_a_chunk(void)
{
    enum { CHUNK = 1 << 20, PAGE = 4096 };
    char *all = mmap(NULL, 4 * CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = all + 2 * CHUNK;
    if (all == MAP_FAILED || mprotect(memory, BYTES, PROT_READ | PROT_WRITE) != 0)
        exit(1);
    memset(memory, 0x44, BYTES);
    munmap(memory - CHUNK - PAGE, CHUNK + PAGE);
    for (int i = 0; i < TRIES; i++) {
        tries[i] = malloc(CHUNK);
        if (tries[i] + CHUNK + PAGE - 16 == memory)
            return memory;
    }
    puts("no chunk lies right before the mapping");
    exit(1);
}

int main(void)
{
    char *lost_memory = apart();
    pool = behind_a_chunk();
    items = (struct item *)(void *)apart();
    memset(items, 0, BYTES);
    printf("in_items %p\n", chunk_in((char *)items, 16, sizeof(struct frame)));
    for (int i = 0; i < FRAMES; i++) /* last: with a guard right below it would resemble a thread's stack */
        add_frame();
    printf("pool %p\nin_pool %p\n", pool, chunk_in(pool, 0, HELD));
    disguised = (uintptr_t)lost_memory ^ key;
    printf("disguised %p\nin_disguised %p\n", (void *)lost_memory, chunk_in(lost_memory, 4096, HELD));
    printf("frame %p\n", free_list->memory);
    lost_memory = NULL;
    puts("ready");
    fflush(stdout);
    getchar();
    return disguised == 0;
}
