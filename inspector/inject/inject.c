// SPDX-License-Identifier: MIT
// The inspector's side of an injection: makes the plan, starts the injector, waits for what it tells.
#include "inject/inject.h"
#include "inject/injector.h"
#include "inject/library.h"
#include "libc/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIBRARY_MOST = 64 << 20 };

// The recorder's code is a segment of its own, the only executable one behind the variables (agent/cold.ld). A copy that is injected
// has room for it only, of which no page is touched until a profile is asked for (load_recorder.c).
static uint32_t leave_recorder_out(struct as_payload *payload, const struct as_elf *elf)
{
    uint32_t last = elf->load_count - 1;
    Elf64_Ehdr *header = (Elf64_Ehdr *)payload->library;
    if (elf->load_count < 2 || !(elf->loads[last].flags & PF_X) || !(elf->loads[last - 1].flags & PF_W) ||
        header->e_phoff > payload->size || header->e_phnum > (payload->size - header->e_phoff) / sizeof(Elf64_Phdr))
        return elf->load_count;
    Elf64_Phdr *segments = (Elf64_Phdr *)(payload->library + header->e_phoff);
    for (uint32_t i = 0; i < header->e_phnum; ++i)
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr == elf->loads[last].vaddr)
            segments[i].p_filesz = segments[i].p_offset = 0;
    return last;
}

// Cuts off what no segment is loaded from (section headers, debug information): the memfd that the library lies in stays in
// memory as a whole, and is the target's. Debuggers, which search for the section headers, are told that there are none.
static void cut_off(struct as_payload *payload, const struct as_elf *elf)
{
    uint64_t end = sizeof(Elf64_Ehdr);
    uint32_t loads = leave_recorder_out(payload, elf);
    AS_FOR_ITEMS(const struct as_elf_load, load, elf->loads, loads) {
        uint64_t behind = load->offset + load->filesz;
        end = load->filesz <= payload->size && load->offset <= payload->size - load->filesz && behind > end ? behind
                                                                                                            : end;
    }
    Elf64_Ehdr *header = (Elf64_Ehdr *)payload->library;
    header->e_shoff = 0;
    header->e_shnum = header->e_shstrndx = 0;
    payload->size = (size_t)end;
}

// Finds the function to call in the library's file.
static bool find_wake(struct as_payload *payload, const struct as_library *library, struct as_error *err)
{
    struct as_elf elf;
    Elf64_Sym symbol;
    if (!as_elf_open(&elf, library->fd, err))
        return false;
    if (!as_elf_dynamic_symbol(&elf, AS_AGENT_WAKE, &symbol) || symbol.st_shndx == SHN_UNDEF)
        return as_fail(err, AS_BAD_INPUT, "'%s' is not the agent's library: it has no function " AS_AGENT_WAKE,
                       library->name);
    const struct as_elf_load *load = as_elf_load_at(&elf, symbol.st_value, symbol.st_size);
    payload->wake = symbol.st_value;
    payload->wake_offset = load ? symbol.st_value - load->vaddr + load->offset : UINT64_MAX;
    cut_off(payload, &elf);
    return (symbol.st_size >= AS_WAKE_BYTES && payload->wake_offset <= payload->size - AS_WAKE_BYTES) ||
           as_fail(err, AS_BAD_INPUT, "'%s' is damaged: " AS_AGENT_WAKE " lies outside of the file", library->name);
}

static bool read_bytes(struct as_payload *payload, const struct as_library *library, struct as_error *err)
{
    struct stat st;
    if (fstat(library->fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr) ||
        st.st_size > LIBRARY_MOST)
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a library", library->name);
    uint8_t *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return as_fail_errno(err, AS_NO_MEMORY, "no memory for '%s'", library->name);
    payload->library = bytes;
    payload->size = payload->mapped = (size_t)st.st_size;
    for (size_t done = 0; done < payload->size;) {
        ssize_t got = pread(library->fd, bytes + done, payload->size - done, (off_t)done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return as_fail(err, AS_BAD_INPUT, "'%s' could not be read to its end", library->name);
        done += got > 0 ? (size_t)got : 0;
    }
    return find_wake(payload, library, err);
}

static bool read_library(struct as_payload *payload, struct as_error *err)
{
    struct as_library library;
    if (!as_library_open(&library, err))
        return false;
    bool ok = read_bytes(payload, &library, err);
    close(library.fd);
    return ok;
}

// Besides what is allowed for the search, for the calls, and for the little that lies between them.
#define CARRIER_SLACK_NS UINT64_C(5000000000)

static bool await_injector(int socket, const struct as_payload *payload, pid_t injector,
                           struct as_injector_report *outcome, struct as_error *err)
{
    uint64_t limit = payload->patience_ns + 2 * payload->watchdog_ns + CARRIER_SLACK_NS;
    uint64_t deadline = as_now_ns() + limit;
    struct pollfd other = {.fd = socket, .events = POLLIN};
    int ready = 0;
    for (uint64_t now = as_now_ns(); ready <= 0 && now < deadline; now = as_now_ns())
        ready = poll(&other, 1, (int)((deadline - now) / 1000000 + 1));
    if (ready <= 0) {
        // Memory of a target's may be one that answers when the target likes (a file of its own file system).
        outcome->late = true;
        return as_fail(err, AS_DENIED,
                       "the injector, process %d, has not finished within %.1f s; it continues, and restores the "
                       "thread that it holds when it can",
                       injector, (double)limit / 1e9);
    }
    ssize_t got = recv(socket, outcome, sizeof *outcome, MSG_DONTWAIT);
    if (got != (ssize_t)sizeof *outcome)
        return as_fail(err, AS_INTERNAL, "the injector ended without a result: was it killed?");
    return outcome->err.code == AS_OK || as_fail(err, outcome->err.code, "%s", outcome->err.text);
}

static bool run_injector(struct as_process *p, const struct as_payload *payload, struct as_inject_result *out,
                         struct as_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return as_fail_errno(err, AS_INTERNAL, "cannot make a socket for the injector");
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        as_injector_run(p, payload, ends[1]);
    }
    int saved = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    errno = saved;
    struct as_injector_report outcome = {0};
    bool ok = pid > 0 ? await_injector(ends[0], payload, pid, &outcome, err)
                      : as_fail_errno(err, AS_INTERNAL, "cannot start the injector process");
    *out = outcome.result;
    close(ends[0]);
    while (pid > 0 && !outcome.late && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return ok;
}

// One injection at a time into a process: two would load the library twice. The lock is on its directory in /proc, and goes
// with the last of us who has that open: with the injector, when the inspector is killed.
static bool lock(const struct as_process *p, uint64_t patience_ns, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + patience_ns;
    while (flock(p->proc_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return as_fail_errno(err, AS_INTERNAL, "/proc/%d cannot be locked", p->base.pid);
        if (as_now_ns() > deadline)
            return as_fail(err, AS_DENIED,
                           "another arenadump is loading the library into process %d, and has not finished: it may be "
                           "waiting for a thread that does not return",
                           p->base.pid);
        as_sleep_ns(5000000);
    }
    return true;
}

bool as_inject(struct as_target *t, const struct as_inject_options *options, struct as_inject_result *out,
               struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    struct as_malloc m;
    struct as_plan plan = {0};
    struct as_payload payload = {
        .plan = &plan,
        .force = options->force,
        .patience_ns = options->patience_ns ? options->patience_ns : AS_INJECT_PATIENCE_NS,
        .watchdog_ns = options->watchdog_ns ? options->watchdog_ns : AS_INJECT_WATCHDOG_NS,
    };
    *out = (struct as_inject_result){0};
    if (t->kind != AS_TARGET_PROCESS)
        return as_fail(err, AS_USAGE, "a library can be loaded only into a running process");
    // Another may just have loaded it.
    if (!lock(p, payload.patience_ns, err) || !as_process_refresh_maps(p, false, err) ||
        !as_malloc_find(t, AS_LAYOUT_ANY, &m, err))
        return false;
    bool ok = as_inject_refused(p, &m, err) && as_plan_make(&plan, t, &m, err);
    ok = ok && (options->force || as_inject_passes_filters(p, options->everywhere, err));
    unsigned mappings = (plan.wake == 0 ? AS_AGENT_MAPPINGS : AS_WAKE_MAPPINGS) + options->mappings;
    ok = ok && (options->force || options->present_only || as_inject_has_mappings(p, mappings, err));
    if (ok && options->present_only && plan.wake == 0)
        ok = as_fail(err, AS_NO_TARGET, "process %d has no agent in it", t->pid);
    ok = ok && (plan.wake != 0 || read_library(&payload, err)) && run_injector(p, &payload, out, err);
    // Whatever could not be found then was not there any more. (It takes some time to go.)
    for (int i = 0; i < 10 && !ok && err->code != AS_TARGET_GONE && as_process_alive(p); ++i)
        as_sleep_ns(5000000);
    if (!ok && err->code != AS_TARGET_GONE && !as_process_alive(p))
        as_fail(err, AS_TARGET_GONE, "process %d ended, or started another program, before it had the library", t->pid);
    if (payload.library)
        munmap(payload.library, payload.mapped);
    as_plan_free(&plan);
    as_malloc_free(&m);
    return ok;
}
