// SPDX-License-Identifier: MIT
// How the agent begins: when the library is loaded, it reads its environment once, and takes its signal if it was asked to. No
// thread is started unless a policy needs one.
#include "agent/agent.h"
#include "agent/errors.h"
#include "agent/judge.h"
#include "agent/log.h"
#include "agent/name.h"
#include "agent/own.h"
#include "agent/policy.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>

#define DEFAULT_PATTERN "arenascope.%e.%p.%n.dump"
#define FIRST_LOOK_NS UINT64_C(100000000) // of processor time: a child that does nothing has nothing to give back

struct as_agent as_agent;

bool as_agent_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

// The memory is our parent's; its threads are not here. Nothing may be started now (libc's own handlers may not have run): the
// signal does it later, and for a policy a timer sends the signal.
static void in_child(void)
{
    as_agent.pid = (pid_t)syscall(SYS_getpid);
    as_agent.wanted = 0;
    as_agent.dumps = 0;
    as_agent.standby = false;
    as_agent.stats = (struct arenascope_policy_stats){0};
    if (as_agent.lock != 0)
        as_own_forget();
    as_keeper_forget();
    as_signal_forget();
    if (as_agent.policy_set)
        as_signal_later(FIRST_LOOK_NS);
}

// What everything else stands on, once; before any signal is taken.
static void prepare(void)
{
    as_agent.pid = (pid_t)syscall(SYS_getpid);
    as_judge_learn();
    pthread_atfork(NULL, NULL, in_child);
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// "USR2", "SIGUSR2", "12", "RTMIN+3", "RTMAX-1"; 0: none; -1: nonsense.
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
    text += begins(text, "SIG") ? 3 : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0)
            return names[i].number;
    if (begins(text, "RTMIN"))
        base = SIGRTMIN;
    else if (begins(text, "RTMAX"))
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

static bool watch(int signal, const char *pattern, unsigned flags, struct as_error *err)
{
    char absolute[PATH_MAX];
    if (signal != 0 && !as_name_resolve(pattern, absolute, sizeof absolute))
        return as_fail(err, AS_USAGE, "the dumps' name '%s' is empty or too long, or the current directory has no name",
                       pattern);
    if (signal != 0) {
        as_agent_lock();
        memcpy(as_agent.pattern, absolute, strlen(absolute) + 1);
        as_agent.flags = flags;
        as_agent_unlock();
    }
    return as_signal_take(signal, err);
}

// A library that is preloaded is meant to do something; one that a program has linked or loaded waits to be called.
static bool is_preloaded(void)
{
    const char *preload = secure_getenv("LD_PRELOAD");
    return preload && strstr(preload, "libarenascope");
}

__attribute__((constructor)) static void start(void)
{
    if (as_agent_is_privileged())
        return;
    as_log_set(secure_getenv("ARENASCOPE_LOG"));
    prepare();
    const char *wanted = secure_getenv("ARENASCOPE_SIGNAL");
    const char *pattern = secure_getenv("ARENASCOPE_OUT");
    const char *chunks = secure_getenv("ARENASCOPE_CHUNKS");
    const char *trim = secure_getenv("ARENASCOPE_TRIM");
    struct as_error err = {0};
    int signal = wanted && *wanted ? read_signal(wanted) : is_preloaded() ? SIGUSR2 : 0;
    unsigned flags = chunks && strcmp(chunks, "1") == 0 ? ARENASCOPE_CHUNKS : 0;
    if (signal < 0)
        as_log("ARENASCOPE_SIGNAL: '%s' is no signal (USR2, 12, RTMIN+3, none)", wanted);
    else if (signal > 0 && !watch(signal, pattern && *pattern ? pattern : DEFAULT_PATTERN, flags, &err))
        as_log("%s", err.text);
    struct arenascope_policy policy;
    if (!trim || !*trim || strcmp(trim, "0") == 0)
        return;
    if (!as_policy_parse(trim, &policy, &err) || !as_policy_set(&policy, &err)) {
        as_log("%s", err.text);
        return;
    }
    int failed = as_keeper_start();
    if (failed)
        as_log("the policy has no thread: %s", strerror(failed));
}

int arenascope_dump_on_signal(int signal, const char *pattern, unsigned flags)
{
    struct as_call call = as_call_begin();
    bool ok = signal >= 0 && (pattern || signal == 0) && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? watch(signal, pattern, flags, call.err)
                  : as_fail(call.err, AS_USAGE, "a signal, a pattern, and no other flag than ARENASCOPE_CHUNKS");
    return as_call_end(&call, ok);
}

int arenascope_request_dump(void)
{
    return as_signal_request();
}
