// SPDX-License-Identifier: MIT
// Threads that do at the same time what a recorder has to get right: allocate and check their blocks, load and unload libraries, fork, throw,
// jump, switch stacks, get signals, cancel and trace. Each checks what it has done; the first that finds it wrong says "wrong: ...", and aborts.
//
//   storm PLUGIN PLUGIN [NAMES]    PLUGIN: of storm_plugin.cc. NAMES: of the threads below; without them all.
//                                  Says "ready". SIGTERM ends it with 0: it says how often each thread has been round
#include "flows.h"
#include "processes.h"

namespace
{

struct Kind {
    const char *name;
    void (*round)();
    int threads;
    std::atomic<uint64_t> rounds;
};

Kind kinds[] = {
    {"blocks", blocks, 3, {0}},       {"pointers", pointers, 1, {0}}, {"libc", libc, 1, {0}},
    {"libraries", libraries, 2, {0}}, {"objects", objects, 1, {0}},   {"characters", characters, 1, {0}},
    {"forks", forks, 1, {0}},         {"spawns", spawns, 1, {0}},     {"clones", clones, 1, {0}},
    {"traces", traces, 1, {0}},       {"starts", starts, 1, {0}},     {"cancels", cancels, 1, {0}},
    {"timers", timers, 1, {0}},       {"jumps", jumps, 1, {0}},       {"exceptions", exceptions, 1, {0}},
    {"switches", switches, 1, {0}},   {"computes", computes, 1, {0}}, {"interrupts", interrupts, 1, {0}},
};

void *run(void *context)
{
    Kind *kind = static_cast<Kind *>(context);
    have_signal_stack();
    for (; !over; kind->rounds++)
        kind->round();
    return nullptr;
}

void handle(int number, void (*handler)(int))
{
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(number, &action, nullptr);
}

bool is_wanted(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

} // namespace

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    plugins[0] = words[1];
    plugins[1] = words[2];
    guard = static_cast<char *>(map(4096, PROT_NONE));
    struct sigaction fault = {};
    fault.sa_sigaction = on_fault;
    fault.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP})
        sigaction(number, &fault, nullptr);
    handle(SIGUSR1, on_user);
    handle(SIGRTMIN + 3, [](int) {});
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, nullptr);
    std::vector<pthread_t> threads;
    for (Kind &kind : kinds)
        for (int i = 0; i < kind.threads && is_wanted(kind.name, count - 3, words + 3); i++) {
            pthread_t thread;
            check(pthread_create(&thread, nullptr, run, &kind) == 0, "pthread_create");
            threads.push_back(thread);
        }
    puts("ready");
    fflush(stdout);
    int number;
    sigwait(&term, &number);
    over = true;
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
    for (const Kind &kind : kinds)
        printf("%s %llu\n", kind.name, static_cast<unsigned long long>(kind.rounds));
    return 0;
}
