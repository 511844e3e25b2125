// SPDX-License-Identifier: MIT
// What programs do to memory that malloc gave them, and that malloc knows nothing of.
#define _GNU_SOURCE
#include "churn.h"

#include <sys/mman.h>
#include <unistd.h>

// The whole pages inside a block: the first and the last of a chunk hold headers too. False when there are none.
static bool inner_pages(const struct slot *s, void **start, size_t *length)
{
    if (!s->block)
        return false;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t lead = -(uintptr_t)s->block & (page - 1);
    *start = s->block + lead;
    *length = s->size > lead ? (s->size - lead) & ~(page - 1) : 0;
    return *length > 0;
}

void lock_memory(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        die("mlockall");
}

unsigned advise_blocks(int advice)
{
    void *start;
    size_t length;
    unsigned advised = 0;
    for (unsigned i = 0; i < option.slots; i++)
        if (inner_pages(&slots[i], &start, &length))
            advised += madvise(start, length, advice) == 0;
    return advised;
}

void protect_blocks(void)
{
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE | PROT_EXEC};
    void *start;
    size_t length;
    unsigned count = 0;
    for (unsigned i = 0; i < option.slots; i++)
        if (inner_pages(&slots[i], &start, &length) && mprotect(start, length, protections[count++ % 3]) != 0)
            die("mprotect");
}

int fork_and_wait(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    return child;
}
