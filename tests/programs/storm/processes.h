// SPDX-License-Identifier: MIT
// Threads that start processes and threads. See storm.cc.
#pragma once

#include "blocks.h"

namespace
{

// --- Processes -------------------------------------------------------------------------------------------------------

void forks()
{
    pid_t child = fork();
    if (child == 0) {
        std::vector<void *> kept;
        for (size_t i = 0; i < 200; i++)
            kept.push_back(malloc(i * 7 + 1));
        for (void *each : kept)
            free(each);
        std::thread([] { free(malloc(99)); }).join();
        _exit(7);
    }
    if (child > 0)
        check(ended_with(status_of(child), 7), "a child of fork");
    nap(3000);
}

void spawns()
{
    char name[] = "true", *words[] = {name, nullptr}, *none[] = {nullptr};
    pid_t child;
    if (posix_spawn(&child, "/bin/true", nullptr, nullptr, words, none) == 0)
        check(ended_with(status_of(child), 0), "a child of posix_spawn");
    volatile pid_t other = vfork();
    if (other == 0) {
        free(malloc(50));
        execv("/bin/true", words);
        _exit(9);
    }
    check(ended_with(status_of(other), 0), "a child of vfork");
    nap(5000);
}

int in_shared_memory(void *word)
{
    free(malloc(70));
    *static_cast<volatile int *>(word) = 5;
    _exit(3);
}

void clones()
{
    constexpr size_t SIZE = 65536;
    static char *stack = static_cast<char *>(map(SIZE, PROT_READ | PROT_WRITE));
    volatile int word = 0;
    int child = clone(in_shared_memory, stack + SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, const_cast<int *>(&word));
    if (child > 0)
        check(ended_with(status_of(child, __WALL), 3) && word == 5, "a child that shares the memory");
    nap(4000);
}

int step(pid_t child)
{
    ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    return status_of(child, __WALL);
}

void traces()
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        free(malloc(10));
        _exit(4);
    }
    if (child < 0)
        return;
    check(WIFSTOPPED(status_of(child, __WALL)), "a traced child did not stop");
    int status = 0;
    for (int i = 0; i < 200 && !WIFEXITED(status = step(child)); i++)
        check(WIFSTOPPED(status), "a traced child");
    if (!WIFEXITED(status)) {
        ptrace(PTRACE_CONT, child, nullptr, nullptr);
        status = status_of(child, __WALL);
    }
    check(ended_with(status, 4), "a traced child");
    nap(5000);
}

// --- Threads ---------------------------------------------------------------------------------------------------------

void *returns(void *word)
{
    deep(10);
    return word;
}

void starts()
{
    pthread_attr_t small;
    pthread_t threads[4];
    char words[4];
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, static_cast<size_t>(PTHREAD_STACK_MIN));
    int count = 0;
    for (; count < 4; count++)
        if (pthread_create(&threads[count], count % 2 ? &small : nullptr, returns, &words[count]) != 0)
            break;
    for (int i = 0; i < count; i++) {
        void *word;
        pthread_join(threads[i], &word);
        check(word == &words[i], "what a thread returns");
    }
    pthread_attr_destroy(&small);
    nap(300);
}

void *is_cancelled(void *)
{
    pthread_cleanup_push([](void *) { free(malloc(10)); }, nullptr);
    for (;;) {
        free(malloc(100));
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return nullptr;
}

void cancels()
{
    pthread_t thread;
    if (pthread_create(&thread, nullptr, is_cancelled, nullptr) != 0)
        return;
    nap(500);
    pthread_cancel(thread);
    void *word;
    pthread_join(thread, &word);
    check(word == PTHREAD_CANCELED, "a cancelled thread");
}

void timers()
{
    timer_t timer;
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = [](sigval) { free(malloc(40)); };
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) {
        const itimerspec often = {{0, 1000000}, {0, 1000000}};
        timer_settime(timer, 0, &often, nullptr);
        nap(20000);
        timer_delete(timer);
    }
}

} // namespace
