// SPDX-License-Identifier: MIT
// Threads allocate and free blocks of random sizes in slots; at the end of a generation all threads end, and new ones take over
// each other's slots. Arguments: THREADS LARGEST OPERATIONS SLOTS GENERATIONS. The C library's allocator is what is under test,
// so nothing else here calls it while they work.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 }; // no larger than any real one: every page is touched

struct slot {
    char *block;
    size_t size;
};

struct share {
    pthread_t thread;
    struct slot *slots;
    size_t slot_count, largest;
    uint64_t operations, random;
};

// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators".
static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1d;
}

static void touch(struct slot *slot)
{
    if (!slot->block) {
        perror("threads: malloc");
        exit(1);
    }
    for (size_t i = 0; i < slot->size; i += PAGE)
        slot->block[i] = (char)i;
    slot->block[slot->size - 1] = 1;
}

static void *work(void *argument)
{
    struct share *share = argument;
    for (uint64_t done = 0; done < share->operations; done++) {
        uint64_t random = next(&share->random);
        struct slot *slot = &share->slots[(random >> 32) % share->slot_count];
        unsigned action = random & 15;
        size_t size = next(&share->random) % share->largest + 1;
        if (slot->block && action < 3) { // as often as t-test1 does, about
            slot->block = realloc(slot->block, size);
        } else {
            free(slot->block);
            slot->block = NULL;
            if (action > 10)
                continue; // stays empty for now
            slot->block = action == 10 ? calloc(1, size) : malloc(size);
        }
        slot->size = size;
        touch(slot);
    }
    return NULL;
}

// Waits until the one who measures has inspected; at once when nobody does.
static void mark(const char *name)
{
    char line[64];
    printf("arenascope mark %s\n", name);
    if (!fgets(line, sizeof line, stdin))
        return;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: threads THREADS LARGEST OPERATIONS SLOTS GENERATIONS\n");
        return 2;
    }
    size_t threads = strtoull(argv[1], NULL, 10), largest = strtoull(argv[2], NULL, 10);
    uint64_t operations = strtoull(argv[3], NULL, 10);
    size_t slots = strtoull(argv[4], NULL, 10), generations = strtoull(argv[5], NULL, 10);
    if (!threads || !largest || !slots || !generations)
        return 2;
    struct share *shares = calloc(threads, sizeof *shares);
    struct slot *all = calloc(threads * slots, sizeof *all);
    if (!shares || !all)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (size_t generation = 0; generation < generations; generation++) {
        for (size_t i = 0; i < threads; i++) {
            struct share *share = &shares[i];
            share->slots = all + (i + generation) % threads * slots; // its neighbour's of the generation before
            share->slot_count = slots;
            share->largest = largest;
            share->operations = operations / threads / generations;
            share->random = 0x9e3779b97f4a7c15 * (generation * threads + i + 1);
            if (pthread_create(&share->thread, NULL, work, share)) {
                fprintf(stderr, "threads: no thread could be started\n");
                return 1;
            }
        }
        for (size_t i = 0; i < threads; i++)
            pthread_join(shares[i].thread, NULL);
    }
    mark("full");
    for (size_t i = 0; i < threads * slots; i++)
        free(all[i].block);
    mark("freed");
    printf("arenascope report operations=%llu\n",
           (unsigned long long)(operations / threads / generations * threads * generations));
    puts("done");
    while (getchar() != EOF)
        continue;
    return 0;
}
