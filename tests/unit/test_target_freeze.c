// SPDX-License-Identifier: MIT
// Stopping a process and letting it go: every thread, also while threads come and go; no signal lost; nothing left
// stopped, whatever happens to the target or to us.
#include "target_util.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum { THREADS = 8, STOPS = 200 };

struct shared {
    volatile int ready, go;
    atomic_ulong work, signals, value_sum;
    unsigned long sent, sent_sum;
    pid_t tid[THREADS];
    uint64_t tp[THREADS], local[THREADS];
};

static struct shared *shared;

static pid_t start(void (*run)(void))
{
    memset(shared, 0, sizeof *shared);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run();
        _exit(0);
    }
    await(&shared->ready);
    return pid;
}

// Does the child get work done?
static bool works(void)
{
    unsigned long before = shared->work;
    for (int i = 0; i < 5000; ++i) {
        if (shared->work != before)
            return true;
        sleep_ms(1);
    }
    return false;
}

static void check_still(void)
{
    unsigned long before = shared->work;
    sleep_ms(2);
    CHECK(shared->work == before, "a thread runs on");
}

static uint64_t thread_pointer(void)
{
    uint64_t tp;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(tp));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
    return tp;
}

static void *signal_and_work(void *argument)
{
    size_t i = (size_t)(uintptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "worker %zu", i);
    prctl(PR_SET_NAME, name);
    shared->tp[i] = thread_pointer();
    shared->local[i] = (uintptr_t)&name;
    shared->tid[i] = (pid_t)syscall(SYS_gettid);
    atomic_fetch_add(&shared->work, 1);
    while (i % 2 == 0)
        atomic_fetch_add(&shared->work, 1);
    for (;;)
        pause();
    return NULL;
}

static void run_threads(void)
{
    for (size_t i = 0; i < THREADS; ++i) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, signal_and_work, (void *)(uintptr_t)i) == 0);
        while (!((volatile pid_t *)shared->tid)[i])
            sleep_ms(1);
    }
    shared->ready = 1;
    pause();
}

static void test_registers(void)
{
    pid_t pid = start(run_threads);
    struct as_target *t = open_process(pid);
    CHECK(t->threads.count == THREADS + 1 && t->threads.items[0].tp == AS_UNKNOWN);
    for (int round = 0; round < 50; ++round) {
        stop(t);
        CHECK(t->stop.active && t->threads.count == THREADS + 1);
        check_still();
        for (size_t i = 0; i < THREADS; ++i) {
            const struct as_thread *thread = NULL;
            for (size_t k = 0; k < t->threads.count; ++k)
                thread = t->threads.items[k].tid == shared->tid[i] ? &t->threads.items[k] : thread;
            CHECK(thread && strncmp(thread->name, "worker ", 7) == 0 && thread->name[7] == '0' + (int)i);
            CHECK(thread->tp == shared->tp[i]);
            CHECK(thread->sp < shared->local[i] + 4096 && thread->sp > shared->local[i] - 65536);
            const struct as_mapping *code = as_target_mapping_at(t, thread->pc);
            CHECK(code && (code->prot & AS_PROT_EXEC));
        }
        CHECK(t->ops->stop.stop(t, NULL)); // a second time changes nothing
        t->ops->stop.resume(t);
        t->ops->stop.resume(t);
        CHECK(!t->stop.active && t->stop.duration_ns > 2000000 && works());
    }
    stop(t);
    as_target_close(t); // resumes
    CHECK(works() && state_of(pid) != 't');
    end_child(pid);
}

static void *count_and_end(void *argument)
{
    (void)argument;
    atomic_fetch_add(&shared->work, 1);
    return NULL;
}

static void *storm(void *argument)
{
    (void)argument;
    for (;;) {
        pthread_t some[4];
        int n = 0;
        while (n < 4 && pthread_create(&some[n], NULL, count_and_end, NULL) == 0)
            ++n;
        while (n > 0)
            pthread_join(some[--n], NULL);
    }
    return NULL;
}

static void run_storm(void)
{
    for (int i = 0; i < 4; ++i) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, storm, NULL) == 0);
    }
    shared->ready = 1;
    pause();
}

// Every thread that there is stands still under our hand.
static void check_all_traced(pid_t pid)
{
    char name[320];
    snprintf(name, sizeof name, "/proc/%d/task", pid);
    DIR *tasks = opendir(name);
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "/proc/%d/task/%s/stat", pid, entry->d_name);
        struct as_proc_stat stat;
        CHECK(!as_proc_stat(-1, name, &stat) || stat.state == 't' || as_proc_is_dead(stat.state), "%s is %c", name,
              stat.state);
    }
    closedir(tasks);
}

static void test_storm(void)
{
    pid_t pid = start(run_storm);
    struct as_target *t = open_process(pid);
    for (int round = 0; round < 200; ++round) {
        stop(t);
        check_all_traced(pid);
        if (round % 20 == 0)
            check_still();
        t->ops->stop.resume(t);
        CHECK(round % 20 || works());
    }
    as_target_close(t);
    CHECK(works());
    end_child(pid);
}

static void run_leaderless(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, signal_and_work, NULL) == 0);
    shared->ready = 1;
    pthread_exit(NULL);
}

static void test_leaderless(void)
{
    pid_t pid = start(run_leaderless);
    await_state(pid, 'Z');
    CHECK(works());
    struct as_target *t = open_process(pid);
    CHECK(t->counts.rss > 0 && t->threads.count == 1 && t->threads.items[0].tid == shared->tid[0]);
    stop(t);
    check_still();
    CHECK(t->threads.count == 1 && t->threads.items[0].tp == shared->tp[0]);
    uint64_t work;
    CHECK(as_target_read_u64(t, (uintptr_t)&shared->work, &work) && work == shared->work);
    as_target_close(t);
    CHECK(works());
    end_child(pid);
}

// The leader ends while we have the process open already.
static void run_leader_leaves(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, signal_and_work, NULL) == 0);
    shared->ready = 1;
    await(&shared->go);
    pthread_exit(NULL);
}

static void test_leader_leaves(void)
{
    pid_t pid = start(run_leader_leaves);
    struct as_target *t = open_process(pid);
    shared->go = 1;
    await_state(pid, 'Z');
    uint64_t work;
    CHECK(as_target_read_u64(t, (uintptr_t)&shared->work, &work)); // through the other thread from now on
    stop(t);
    check_still();
    CHECK(as_target_read_u64(t, (uintptr_t)&shared->work, &work) && work == shared->work);
    as_target_close(t);
    CHECK(works());
    end_child(pid);
}

static void run_work(void)
{
    shared->ready = 1;
    for (;;)
        atomic_fetch_add(&shared->work, 1);
}

static void test_group_stop(void)
{
    pid_t pid = start(run_threads);
    kill(pid, SIGSTOP);
    await_state(pid, 'T');
    struct as_target *t = open_process(pid);
    for (int round = 0; round < 20; ++round) {
        stop(t);
        CHECK(state_of(pid) == 't' && t->threads.items[1].tp == shared->tp[0]);
        t->ops->stop.resume(t);
        await_state(pid, 'T');
        check_still();
    }
    kill(pid, SIGCONT);
    CHECK(works());
    stop(t);
    kill(pid, SIGSTOP); // while it stands still: takes effect afterwards
    t->ops->stop.resume(t);
    await_state(pid, 'T');
    stop(t);
    kill(pid, SIGCONT);
    t->ops->stop.resume(t);
    CHECK(works());
    as_target_close(t);
    end_child(pid);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    atomic_fetch_add(&shared->value_sum, (unsigned long)info->si_value.sival_int);
    atomic_fetch_add(&shared->signals, 1); // what is waited for comes last
}

static void run_signals(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, signal_and_work, NULL) == 0);
    shared->ready = 1;
    for (;;)
        pause();
}

// Signals that arrive as the process is stopped: each is delivered once, with what it carries.
static void test_signals(void)
{
    pid_t pid = start(run_signals);
    pid_t sender = fork();
    if (sender == 0) {
        for (; !shared->go; ++shared->sent) {
            while (sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = (int)(shared->sent % 1000)}) != 0)
                sched_yield(); // the queue is full
            shared->sent_sum += shared->sent % 1000;
        }
        _exit(0);
    }
    struct as_target *t = open_process(pid);
    for (int round = 0; round < STOPS; ++round) {
        stop(t);
        t->ops->stop.resume(t);
    }
    as_target_close(t);
    shared->go = 1;
    CHECK(waitpid(sender, NULL, 0) == sender && shared->sent > STOPS);
    for (int i = 0; i < 5000 && shared->signals < shared->sent; ++i)
        sleep_ms(1);
    CHECK(shared->signals == shared->sent, "%lu of %lu", shared->signals, shared->sent);
    CHECK(shared->value_sum == shared->sent_sum, "%lu, not %lu", shared->value_sum, shared->sent_sum);
    end_child(pid);
}

static void stop_and_signal(pid_t pid, volatile int *stopped)
{
    struct as_target *t = open_process(pid);
    stop(t);
    *stopped = 1;
    for (;;)
        pause();
}

static void test_inspector_killed(void)
{
    pid_t pid = start(run_threads);
    for (int round = 0; round < 10; ++round) {
        volatile int *stopped = share(sizeof *stopped);
        pid_t inspector = fork();
        if (inspector == 0)
            stop_and_signal(pid, stopped);
        await(stopped);
        check_all_traced(pid);
        check_still();
        end_child(inspector); // SIGKILL
        CHECK(works() && state_of(pid) != 't');
    }
    end_child(pid);
}

static void inspect_killed(void *target)
{
    pid_t pid = *(pid_t *)target;
    struct as_target *t = open_process(pid);
    stop(t);
    kill(pid, SIGKILL);
    sleep_ms(50);
    uint8_t byte;
    struct as_error err = {0};
    CHECK(t->ops->memory.read(t, (uintptr_t)shared, &byte, 1) == 0);
    CHECK(!t->ops->residency.pages(t, t->mappings.items[0].start, t->mappings.items[0].start + t->page_size, &byte,
                                   &err));
    CHECK(err.code == AS_TARGET_GONE, "%s", err.text);
    as_target_close(t);
    shared->go = 1;
    sleep_ms(300); // its parent must learn of its end although we live on
}

static void test_target_killed(void)
{
    pid_t pid = start(run_threads);
    pid_t inspector = fork();
    if (inspector == 0) {
        inspect_killed(&pid);
        _exit(0);
    }
    await(&shared->go);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(waitpid(inspector, &status, WNOHANG) == 0, "the inspector had to end first");
    CHECK(waitpid(inspector, &status, 0) == inspector && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_traced(void)
{
    pid_t pid = start(run_work);
    volatile int *traced = share(sizeof *traced);
    pid_t tracer = fork();
    if (tracer == 0) {
        CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
        *traced = 1;
        for (;;)
            pause();
    }
    await(traced);
    struct as_target *t = open_process(pid);
    struct as_error err = {0};
    char words[64];
    snprintf(words, sizeof words, "traced by process %d (test_target_fre)", tracer);
    CHECK(!t->ops->stop.stop(t, &err) && err.code == AS_DENIED && strstr(err.text, words), "%s", err.text);
    CHECK(works());
    as_target_close(t);
    end_child(tracer);
    end_child(pid);
}

static void run_vfork(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, signal_and_work, NULL) == 0);
    if (!shared->go) {
        shared->ready = 1;
        if (syscall(SYS_vfork) == 0) {
            while (!shared->go)
                syscall(SYS_sched_yield);
            syscall(SYS_exit, 0);
        }
    }
    shared->ready = 2;
    for (;;)
        pause();
}

// A parent in vfork cannot be stopped: we say so within seconds, and leave it alone.
static void test_vfork(void)
{
#if defined(__x86_64__) // aarch64 has no vfork system call; clone would need another stack here
    pid_t pid = start(run_vfork);
    await_state(pid, 'D');
    struct as_target *t = open_process(pid);
    struct as_error err = {0};
    as_process_of(t)->patience_ns = 100000000;
    CHECK(!t->ops->stop.stop(t, &err) && err.code == AS_DENIED && strstr(err.text, "vfork"), "%s", err.text);
    CHECK(works() && !t->stop.active);
    CHECK(as_proc_status(as_process_of(t)->proc_fd, "status", "TracerPid:") == 0);
    shared->go = 1;
    await_state(pid, 'S');
    CHECK(shared->ready == 2);
    as_process_of(t)->patience_ns = UINT64_C(60000000000);
    stop(t);
    check_still();
    as_target_close(t);
    CHECK(works());
    end_child(pid);
#endif
}

// Threads that do not stop in time, though there are no others than before: what is said of them is so.
static void test_impatience(void)
{
    pid_t pid = start(run_threads);
    struct as_target *t = open_process(pid);
    struct as_error err = {0};
    as_process_of(t)->patience_ns = 1;
    bool refused = false;
    for (int round = 0; round < 1000 && !refused; ++round) {
        refused = !t->ops->stop.stop(t, &err);
        t->ops->stop.resume(t);
    }
    CHECK(refused && err.code == AS_DENIED && strstr(err.text, "had not stopped yet (state "), "%s", err.text);
    CHECK(!strstr(err.text, "uninterruptible") && !strstr(err.text, "new threads had started"), "%s", err.text);
    CHECK(works());
    as_process_of(t)->patience_ns = UINT64_C(60000000000);
    stop(t);
    check_still();
    as_target_close(t);
    CHECK(works() && state_of(pid) != 't');
    end_child(pid);
}

static uint64_t resident_files(const struct as_target *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->mappings.count; ++i)
        sum += t->mappings.items[i].kind == AS_MAP_FILE ? t->mappings.items[i].rss : 0;
    return sum;
}

// A freeze that is given up before anything was counted, and a clone after it: that has the target's files.
static void test_clone_after_a_freeze(void)
{
    pid_t pid = start(run_threads);
    struct as_target *t = open_process(pid);
    struct as_error err;
    const struct as_critical nowhere = {.complete = true};
    CHECK(t->ops->stop.stop_clean(t, &nowhere, &err), "%s", err.text);
    CHECK(as_target_read_residency_map(t, &err), "%s", err.text);
    uint64_t files = resident_files(t);
    t->ops->stop.resume(t);
    CHECK(files > 0 && t->ops->stop.stop_clean(t, &nowhere, &err));
    t->ops->stop.resume(t);
    CHECK(t->ops->stop.fork(t, &nowhere, &err), "%s", err.text);
    CHECK(as_target_read_residency_map(t, &err), "%s", err.text);
    // The kernel may take pages of files at any time; without the target's own there would be next to none.
    CHECK(resident_files(t) > files / 2, "%llu, %llu", (unsigned long long)resident_files(t),
          (unsigned long long)files);
    as_target_close(t);
    CHECK(works());
    end_child(pid);
}

int main(void)
{
    shared = share(sizeof *shared);
    test_registers();
    test_storm();
    test_leaderless();
    test_leader_leaves();
    test_group_stop();
    test_signals();
    test_inspector_killed();
    test_target_killed();
    test_traced();
    test_vfork();
    test_impatience();
    test_clone_after_a_freeze();
    puts("ok");
    return 0;
}
