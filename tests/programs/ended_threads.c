// SPDX-License-Identifier: MIT
// ended_threads COUNT: so many threads use 64 KiB of their stacks of 1 MiB and end; nobody joins them. Prints "ready", and waits.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *use_stack(void *unused)
{
    volatile char used[64 << 10];
    for (size_t i = 0; i < sizeof used; i += 1024)
        used[i] = 1;
    (void)unused;
    return (void *)(long)used[0];
}

int main(int argc, char **argv)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, use_stack, NULL) != 0)
            return 1;
    }
    for (int threads = 2; threads > 1;) { // until the kernel has none but this one
        FILE *stat = fopen("/proc/self/stat", "r");
        if (!stat || fscanf(stat, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
                            &threads) != 1)
            return 1;
        fclose(stat);
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
