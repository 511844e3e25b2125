// SPDX-License-Identifier: MIT
// Sites that keep pages in different ways, and know their blocks: writes down each block's address and site, then frees all blocks of a
// site when it is told to (a letter, on stdin), calls malloc_trim(0), and says so.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4000, SITES = 8 };
static void *blocks[SITES][MOST];
static int counts[SITES];
static void *between[MOST];
static int between_count;

#define SITE(name, number)                                                                                             \
    static __attribute__((noinline)) void name(size_t size)                                                            \
    {                                                                                                                  \
        void *block = malloc(size);                                                                                    \
        memset(block, 1, size);                                                                                        \
        blocks[number][counts[number]++] = block;                                                                      \
    }
SITE(site_a, 0) // small blocks, far from each other
SITE(site_b, 1) // of these and the next several share a page
SITE(site_c, 2)
SITE(site_d, 3) // blocks with a mapping of their own
SITE(site_e, 4) // blocks side by side, in the middle
SITE(site_f, 5) // blocks before the top of the main arena
SITE(site_g, 6) // in a thread's arena, far from each other
SITE(site_h, 7) // in a thread's arena, before its top

static void space(size_t size)
{
    void *block = malloc(size);
    memset(block, 2, size);
    between[between_count++] = block;
}

static void *in_thread(void *unused)
{
    for (int i = 0; i < 300; i++) {
        site_g(80 + 16 * (i % 7));
        space(2000 + 640 * (i % 9));
    }
    for (int i = 0; i < 20; i++)
        site_h(3000);
    return unused;
}

static void release(int site)
{
    for (int i = 0; i < counts[site]; i++)
        free(blocks[site][i]);
    counts[site] = 0;
    malloc_trim(0);
}

// Each call stays one call, and so one stack.
__attribute__((optimize("O0"))) int main(void)
{
    pthread_t thread;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 500; i++) {
        site_a(100 + 16 * (i % 5));
        space(3000 + 400 * (i % 11));
    }
    for (int i = 0; i < 1000; i++) {
        site_b(200 + 32 * (i % 7));
        if (i % 3 == 0)
            site_c(150);
        space(496 + 16 * (i % 40));
    }
    for (int i = 0; i < 300; i++) {
        site_e(i < 200 ? 1000 + 16 * (i % 50) : 9000);
        if (i >= 200)
            space(16 + 4096 * (i % 2));
    }
    for (int i = 0; i < 5; i++)
        site_d(400000 + 5000 * (size_t)i);
    if (pthread_create(&thread, NULL, in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    space(64);
    for (int i = 0; i < 30; i++)
        site_f(2500);
    for (int i = 0; i < between_count; i++)
        free(between[i]);
    for (int site = 0; site < SITES; site++)
        for (int i = 0; i < counts[site]; i++)
            printf("%c %lu\n", 'a' + site, (unsigned long)blocks[site][i]);
    puts("ready");
    for (int letter; (letter = getchar()) != EOF;)
        if (letter >= 'a' && letter < 'a' + SITES) {
            release(letter - 'a');
            printf("freed %c\n", letter);
        }
    return 0;
}
