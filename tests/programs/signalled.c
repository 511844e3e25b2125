// SPDX-License-Identifier: MIT
// signalled HOW: one thread that says which signals it gets, in which number, and who sent them. Says "ready"; ends upon SIGTERM.
//
//   handles   in handlers; a line of one that runs elsewhere than on the thread's own stack begins with "astray"
//   waits     by sigwaitinfo, and blocks them all
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NEAR = 1 << 20 }; // of the first function's frame: the thread's own stack

static const int signals[] = {SIGUSR1, SIGUSR2, SIGTRAP, SIGSEGV, SIGABRT, SIGCONT, SIGTERM};
enum { SIGNALS = sizeof signals / sizeof signals[0] };
static char *first_frame;

static void tell(const siginfo_t *info)
{
    char line[100];
    char here;
    int64_t distance = first_frame - &here;
    int length = snprintf(line, sizeof line, "%s%d from %d\n", distance < 0 || distance > NEAR ? "astray " : "",
                          info->si_signo, (int)info->si_pid);
    if (write(STDOUT_FILENO, line, (size_t)length) != length || info->si_signo == SIGTERM)
        _exit(0);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    int saved = errno;
    tell(info);
    errno = saved;
}

int main(int argc, char **argv)
{
    char here;
    siginfo_t info;
    sigset_t set;
    const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    first_frame = &here;
    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&set, signals[i]);
    int waits = argc > 1 && strcmp(argv[1], "waits") == 0;
    for (int i = 0; i < SIGNALS && !waits; i++)
        sigaction(signals[i], &action, NULL);
    if (waits)
        sigprocmask(SIG_BLOCK, &set, NULL);
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (!waits)
            pause();
        else if (sigwaitinfo(&set, &info) > 0)
            tell(&info);
    }
}
