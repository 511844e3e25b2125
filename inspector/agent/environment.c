// SPDX-License-Identifier: MIT
// The environment is read once, when the library is loaded. No thread is started unless a policy needs one. The gem (ruby-ext/) is
// built without this file: Ruby code sets what it needs.
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/policy.h"
#include "agent/preload/preloaded.h"
#include "agent/profile_session.h"
#include "agent/signals.h"
#include "agent/worker.h"

#include <signal.h>
#include <stdlib.h>

#define DEFAULT_PATTERN "arenascope.%e.%p.%n.dump"

static bool begins_with_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// "USR2", "SIGUSR2", "12", "RTMIN+3", "RTMAX-1"; 0: none; -1: no such signal.
static int read_signal(const char *text)
{
    static const struct {
        const char *name;
        int number;
    } names[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP},     {"QUIT", SIGQUIT}, {"URG", SIGURG},
                 {"IO", SIGIO},     {"PWR", SIGPWR},   {"WINCH", SIGWINCH}, {"XCPU", SIGXCPU}, {"TTIN", SIGTTIN}};
    int base = 0;
    if (strcmp(text, "none") == 0 || strcmp(text, "0") == 0)
        return 0;
    text += begins_with_prefix(text, "SIG") ? 3 : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0)
            return names[i].number;
    if (begins_with_prefix(text, "RTMIN"))
        base = SIGRTMIN;
    else if (begins_with_prefix(text, "RTMAX"))
        base = SIGRTMAX;
    const char *digits = base ? text + 5 : text;
    int sign = base && *digits == '-' ? -1 : 1;
    if (base && *digits == '\0')
        return base;
    digits += base && (*digits == '+' || *digits == '-');
    int value = 0;
    for (const char *c = digits; *c; c++) {
        if (*c < '0' || *c > '9' || value > 99)
            return -1;
        value = value * 10 + (*c - '0');
    }
    int signal = base + sign * value;
    return *digits && signal > 0 && signal <= SIGRTMAX ? signal : -1;
}

// A preloaded library has a default signal; a library that a program has linked or loaded waits for calls.
static bool is_preloaded(void)
{
    const char *preload = secure_getenv("LD_PRELOAD");
    return preload && strstr(preload, "libarenascope");
}

// NULL: nothing.
static const char *asked(const char *variable)
{
    const char *text = secure_getenv(variable);
    return text && *text && strcmp(text, "0") != 0 ? text : NULL;
}

// What only a preloaded library has: inject/inject.c leaves it out.
static void start_preloaded(unsigned flags)
{
    if (!asked("ARENASCOPE_PROFILE") && !asked("ARENASCOPE_PROFILE_TRACE") && !asked("ARENASCOPE_DUMP_AT") &&
        !asked("ARENASCOPE_EXIT_LEAKS"))
        return;
    if (as_agent_has_recorder())
        as_preloaded_start(asked, flags);
    else
        as_log(
            "an agent that was injected heeds no ARENASCOPE_PROFILE, ARENASCOPE_PROFILE_TRACE, ARENASCOPE_DUMP_AT or "
            "ARENASCOPE_EXIT_LEAKS: preload it (arenascope run)");
}

__attribute__((constructor)) static void start(void)
{
    if (as_agent_is_privileged())
        return;
    as_log_set(secure_getenv("ARENASCOPE_LOG"));
    const char *wanted = secure_getenv("ARENASCOPE_SIGNAL");
    const char *pattern = secure_getenv("ARENASCOPE_OUT");
    const char *chunks = secure_getenv("ARENASCOPE_CHUNKS");
    const char *trim = asked("ARENASCOPE_TRIM");
    struct as_error err = {0};
    int signal = wanted && *wanted ? read_signal(wanted) : is_preloaded() ? SIGUSR2 : 0;
    unsigned flags = chunks && strcmp(chunks, "1") == 0 ? ARENASCOPE_CHUNKS : 0;
    if (signal < 0)
        as_log("ARENASCOPE_SIGNAL: '%s' is not a signal (USR2, 12, RTMIN+3, none)", wanted);
    else if (signal > 0 && !as_signal_dump_on(signal, pattern && *pattern ? pattern : DEFAULT_PATTERN, flags, &err))
        as_log("%s", err.text);
    start_preloaded(flags);
    struct arenascope_policy policy;
    if (!trim)
        return;
    if (!as_policy_parse(trim, &policy, &err) || !as_policy_set(&policy, &err)) {
        as_log("%s", err.text);
        return;
    }
    int failed = as_agent_worker_start();
    if (failed)
        as_log("no thread can be started for the policy: %s", strerror(failed));
}
