// SPDX-License-Identifier: MIT
// Its first thread ends by pthread_exit(), and others go on: /proc/PID then says that the process is a zombie.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 2000, SIZE = 1000 };

static void *stay(void *first)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *block = malloc(SIZE);
        if (!block)
            abort();
        memset(block, 1, SIZE);
    }
    if (first && pthread_join(*(pthread_t *)first, NULL) == 0) {
        puts("ready");
        fflush(stdout);
    }
    for (;;)
        pause();
}

int main(void)
{
    static pthread_t first;
    pthread_t thread;
    first = pthread_self();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, stay, i == 0 ? &first : NULL) != 0)
            return 1;
    pthread_exit(NULL);
}
