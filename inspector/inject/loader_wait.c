// SPDX-License-Identifier: MIT
// dlopen waits for the loader's lock where another thread holds it: one in dlclose, say, whose library's destructor waits for a
// thread that it has told to end. If the thread that we have is the one, both would wait for ever. So it does not wait for
// long: it is taken out of dlopen again, lets its own work go on, and another time is searched for.
//
// It can be taken out at this one place, because it is the first lock that dlopen takes and nothing has been done by then but
// one thing: a variable of the thread's says where, on our stack, to go in case of an error.
#include "inject/loader_wait.h"
#include "inject/call_write.h"
#include "target/process/stop/registers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

// For which it may wait. Others hold the lock for the milliseconds that it takes to map a library.
#define MOST_WAIT_NS UINT64_C(10000000)

void as_yield_begin(struct as_loader_wait *y, struct as_process *p, const struct as_plan *plan,
                    const struct as_tracee *tracee, struct as_range stack)
{
    *y = (struct as_loader_wait){.p = p, .plan = plan, .tid = tracee->tid, .stack = stack};
    // Static TLS lies on one side of the thread pointer, the thread's own structure on the other.
    uint64_t pointer = tracee->registers.tp;
    const struct as_mapping *m = as_target_mapping_at(&p->base, pointer);
    if (!m)
        return;
    y->start = pointer - m->start > AS_YIELD_BELOW ? pointer - AS_YIELD_BELOW : m->start;
    uint64_t end = m->end - pointer > AS_YIELD_ABOVE ? pointer + AS_YIELD_ABOVE : m->end;
    size_t length = (size_t)(end - y->start);
    y->count = p->base.ops->memory.read(&p->base, y->start, y->words, length) / sizeof y->words[0];
}

// The lock that it waits for, by what the kernel says of a thread that runs; 0: none.
static uint64_t awaited(const struct as_loader_wait *y)
{
    char text[128];
    ssize_t length = as_proc_read(y->p->proc_fd, as_proc_name("task/%d/syscall", y->tid).text, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    const char *at = text; // "202 0x7f... ..."; "running"
    if (text[0] < '0' || text[0] > '9' || as_parse_decimal(&at, text + strlen(text)) != SYS_futex)
        return 0;
    return strtoull(at, NULL, 16);
}

bool as_loader_wait_is_due(struct as_loader_wait *y)
{
    uint64_t address = awaited(y);
    uint64_t now = as_now_ns();
    if (address == 0 || !as_plan_waits_in_loader(y->plan, &y->p->base, address))
        y->since_ns = 0;
    else if (y->since_ns == 0)
        y->since_ns = now;
    return y->since_ns != 0 && now - y->since_ns > MOST_WAIT_NS;
}

bool as_loader_wait_may_end(struct as_loader_wait *y)
{
    struct as_registers at;
    // Had it been woken, it would have to take the lock, or the next in the queue would sleep on.
    if (y->since_ns == 0 || !as_registers_read(y->tid, &at) || !as_registers_waiting(&at) || at.call != SYS_futex)
        return false;
    // On aarch64 the result of a call has taken the place of its first argument, which the kernel still knows.
    uint64_t address = at.argument != AS_UNKNOWN ? at.argument : awaited(y);
    return address != 0 && as_plan_waits_in_loader(y->plan, &y->p->base, address);
}

bool as_loader_wait_undo(struct as_loader_wait *y, struct as_error *err)
{
    for (size_t i = 0; i < y->count; ++i) {
        uint64_t address = y->start + i * sizeof y->words[0];
        uint64_t word;
        if (as_target_read_u64(&y->p->base, address, &word) && word >= y->stack.start && word < y->stack.end &&
            word != y->words[i] && !as_call_write(y->p, y->tid, address, &y->words[i], sizeof word, err))
            return false;
    }
    return true;
}
