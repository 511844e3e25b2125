// SPDX-License-Identifier: MIT
// Threads that allocate by one call stack, and count: writes to FILE "TID COUNT NAME" for each, NAME "-" if it has ended, and "end PID".
//
//   by_thread FILE SHORT [wait] [fork]    SHORT threads live one after another; wait: for FILE.go, with FILE.waiting; fork: a child
//                                         goes on, and writes FILE.child
//   by_thread FILE SHORT large            blocks of which a profile of samples has each
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKERS = 5, STEP = 100, EACH = 2, BY_CHILD = 70, MOST = 4000, LARGE = 4000 };

struct job {
    char name[16];
    int count;
    bool ends;
    long tid;
    pthread_barrier_t *made;
};
static struct job jobs[MOST];
static size_t job_count;
static size_t size = 40;
static void *kept[MOST * STEP];
static size_t kept_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void *leaf(void)
{
    void *volatile block = malloc(size); // volatile: no tail call
    return block;
}

__attribute__((noinline)) static void allocate(int count)
{
    for (int i = 0; i < count; i++) {
        void *given_back = leaf(); // whose place another thread may get
        void *block = leaf();
        pthread_mutex_lock(&lock);
        kept[kept_count++] = block;
        pthread_mutex_unlock(&lock);
        free(given_back);
    }
}

static void *work(void *arg)
{
    struct job *job = arg;
    job->tid = syscall(SYS_gettid);
    allocate(1); // before it has its name
    pthread_setname_np(pthread_self(), job->name);
    allocate(job->count - 1);
    if (job->made)
        pthread_barrier_wait(job->made);
    while (!job->ends)
        pause();
    return NULL;
}

static pthread_t start(int count, bool ends, pthread_barrier_t *made)
{
    struct job *job = &jobs[job_count];
    pthread_t thread;
    *job = (struct job){.count = count, .ends = ends, .made = made};
    snprintf(job->name, sizeof job->name, "worker-%zu", job_count++);
    if (pthread_create(&thread, NULL, work, job) != 0)
        abort();
    return thread;
}

static void tell(const char *path, const char *behind, int count)
{
    char name[4096];
    snprintf(name, sizeof name, "%s%s", path, behind);
    FILE *file = fopen(name, "we");
    for (size_t i = 0; i < job_count; i++)
        fprintf(file, "%ld %d %s\n", jobs[i].tid, jobs[i].count, *behind || jobs[i].ends ? "-" : jobs[i].name);
    fprintf(file, "%d %d by_main\nend %d\n", (int)getpid(), count, (int)getpid());
    fclose(file);
}

static void wait_for(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.waiting", path);
    fclose(fopen(name, "we"));
    snprintf(name, sizeof name, "%s.go", path);
    while (access(name, F_OK) != 0)
        usleep(10000);
}

int main(int count, char **words)
{
    static pthread_barrier_t made;
    bool waits = count > 3 && strcmp(words[3], "wait") == 0, forks = count > 3 && strcmp(words[count - 1], "fork") == 0;
    if (strcmp(words[count - 1], "large") == 0)
        size = LARGE;
    pthread_barrier_init(&made, NULL, WORKERS - 1);
    pthread_setname_np(pthread_self(), "by_main");
    if (waits)
        wait_for(words[1]);
    pthread_join(start(STEP, true, NULL), NULL);
    for (int i = 2; i < WORKERS; i++) // the first has what the one before had
        start(i * STEP, false, &made);
    for (int i = 0; i < atoi(words[2]); i++)
        pthread_join(start(EACH, true, NULL), NULL);
    allocate(STEP);
    pthread_barrier_wait(&made);
    tell(words[1], "", STEP);
    if (forks && fork() == 0) {
        allocate(BY_CHILD);
        tell(words[1], ".child", BY_CHILD);
    }
    for (;;)
        pause();
}
