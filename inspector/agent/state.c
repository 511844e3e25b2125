// SPDX-License-Identifier: MIT
#include "agent/agent.h"

#include <linux/futex.h>
#include <sys/auxv.h>

struct as_agent as_agent;
char as_agent_pattern[PATH_MAX] AS_AGENT_RARE;

bool as_agent_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

// As glibc's own low-level lock: 0 free, 1 taken, 2 taken and somebody waits.
void as_agent_lock(void)
{
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&as_agent.lock, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(&as_agent.lock, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &as_agent.lock, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
}

void as_agent_unlock(void)
{
    if (__atomic_exchange_n(&as_agent.lock, 0, __ATOMIC_RELEASE) > 1)
        syscall(SYS_futex, &as_agent.lock, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}
