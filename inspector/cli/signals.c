// SPDX-License-Identifier: MIT
#include "cli/cli.h"

#include <signal.h>
#include <stddef.h>

// A signal handler has no other way to know.
static const struct as_output *volatile guarded;

void as_signals_abandon(void)
{
    const struct as_output *file = guarded;
    if (file)
        as_output_abandon(file);
}

static void on_signal(int signal)
{
    as_signals_abandon();
    raise(signal); // SA_RESETHAND: the default action, so that our parent sees what ended us
}

void as_signals_guard(const struct as_output *file)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    guarded = file;
    struct sigaction action = {.sa_flags = (int)SA_RESETHAND};
    action.sa_handler = file ? on_signal : SIG_DFL;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        // nohup and background shells ignore some of them on purpose.
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}
