// SPDX-License-Identifier: MIT
// A library with a thread of its own: loaded, it starts the thread and waits for it; unloaded, it ends the thread and joins it.
// Whoever keeps that thread waiting for the loader's lock keeps it for ever: the lock is held meanwhile.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int running, ending; // running: the thread's number
static pthread_t worker;
// Static TLS: the loader walks through all threads to give it a value.
static __thread int answer __attribute__((tls_model("initial-exec"))) = 42;

static void *work(void *unused)
{
    pthread_mutex_lock(&mutex);
    running = (int)syscall(SYS_gettid);
    pthread_cond_broadcast(&changed);
    while (!ending)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

__attribute__((constructor)) static void begin(void)
{
    enum { TRIES = 60000 };
    int error = EAGAIN; // also while another thread is in execve
    for (int i = 0; error == EAGAIN && i < TRIES; i++) {
        error = pthread_create(&worker, NULL, work, NULL);
        if (error == EAGAIN)
            usleep(1000);
    }
    if (error != 0) {
        fprintf(stderr, "plugin: pthread_create: %s\n", strerror(error));
        abort();
    }
    pthread_mutex_lock(&mutex);
    while (!running)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

__attribute__((destructor)) static void finish(void)
{
    pthread_mutex_lock(&mutex);
    ending = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(worker, NULL);
}

int plugin_answer(void)
{
    return answer;
}

int plugin_worker(void)
{
    return running;
}
