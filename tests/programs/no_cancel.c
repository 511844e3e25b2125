// SPDX-License-Identifier: MIT
// Preloaded into arenadump: a cancellation that comes to nothing, as glibc's may before 2.41 where its signal meets the beginning
// or the end of a wait.
#include <pthread.h>

int pthread_cancel(pthread_t thread)
{
    (void)thread;
    return 0;
}
