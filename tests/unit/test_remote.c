// SPDX-License-Identifier: MIT
// The system call instruction through which a target makes calls for us, past its own seccomp filter: where it may lie, and what
// happens when it is not what it was.
#include "target/process/clone/remote.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/one_thread.h"
#include "target_util.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

enum { PAGE = 4096 };

// `syscall; ret`, a wait in read through it, and code that makes another call than it is told to: write, through a second
// instruction, into its pipe.
static const uint8_t WAIT[] = {0x31, 0xc0, 0x0f, 0x05, 0xc3};
static const uint8_t OTHER_CALL[] = {0xb8, 0x01, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xfe};
// The same instruction's place, but 32-bit's (int $0x80), where number 39 is mkdir and not getpid.
static const uint8_t OTHER_TABLE[] = {0xcd, 0x80, 0xeb, 0xfe};

struct child {
    pid_t pid;
    struct as_target *target;
    struct as_process *p;
};

static int *ready;
static int pipe_ends[2];

static void read_with(const uint8_t *code)
{
    uint64_t byte;
    long (*wait)(int, void *, size_t);
    *(const void **)&wait = code;
    *ready = 1;
    wait(pipe_ends[0], &byte, 1);
    _exit(1);
}

// A child that waits in a call from there, opened and stopped.
static struct child start(const uint8_t *code, void (*before)(void))
{
    struct child c;
    *ready = 0;
    c.pid = fork();
    CHECK(c.pid >= 0);
    if (c.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a check that fails leaves nothing behind
        if (before)
            before();
        read_with(code);
    }
    await(ready);
    await_state(c.pid, 'S');
    c.target = open_process(c.pid);
    c.p = as_process_of(c.target);
    CHECK(as_process_stop_one(c.p, c.pid));
    c.target->counts.swap = PAGE; // or the vdso is not read at all, by /proc/PID/mem
    return c;
}

static void end(struct child *c)
{
    as_process_resume(c->target);
    as_target_close(c->target);
    end_child(c->pid);
}

static uint8_t *code_at(uint64_t *address, const uint8_t *code, size_t size, int prot, int flags, int fd)
{
    uint8_t *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    memcpy(at, code, size);
    CHECK(mprotect(at, PAGE, prot) == 0);
    if (address)
        *address = (uint64_t)(uintptr_t)at;
    return at;
}

static const struct as_mapping *mapping_of(const struct child *c, uint64_t address)
{
    for (size_t i = 0; i < c->p->base.mappings.count; ++i) {
        const struct as_mapping *m = &c->p->base.mappings.items[i];
        if (address >= m->start && address < m->end)
            return m;
    }
    return NULL;
}

static const char *path_of(const struct child *c, uint64_t address)
{
    const struct as_mapping *m = mapping_of(c, address);
    CHECK(m, "nothing is mapped at %#" PRIx64, address);
    return as_mapping_path(&c->p->base, m);
}

// Memory of the target's own is passed over, whatever it is called: the next best is the vdso.
static void test_own_memory(void)
{
    int memory = memfd_create("own", 0);
    CHECK(memory >= 0 && ftruncate(memory, PAGE) == 0);
    const int WRITABLE = PROT_READ | PROT_WRITE | PROT_EXEC, READABLE = PROT_READ | PROT_EXEC;
    const uint8_t *codes[] = {
        code_at(NULL, WAIT, sizeof WAIT, WRITABLE, MAP_PRIVATE | MAP_ANONYMOUS, -1),
        code_at(NULL, WAIT, sizeof WAIT, READABLE, MAP_PRIVATE | MAP_ANONYMOUS, -1),
        code_at(NULL, WAIT, sizeof WAIT, READABLE, MAP_SHARED | MAP_ANONYMOUS, -1),
        code_at(NULL, WAIT, sizeof WAIT, READABLE, MAP_SHARED, memory),
        code_at(NULL, WAIT, sizeof WAIT, READABLE, MAP_PRIVATE, memory), // written since: a copy
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; ++i) {
        struct child c = start(codes[i], NULL);
        uint64_t found = as_remote_instruction(c.p, NULL, 0);
        CHECK(found == 0 || strcmp(path_of(&c, found), "[vdso]") == 0, "%zu: %#" PRIx64, i, found);
        end(&c);
    }
    close(memory);
}

static uint64_t vdso_start, vdso_end;

static void write_vdso(void)
{
    uint8_t *at = (uint8_t *)(uintptr_t)vdso_start;
    CHECK(mprotect(at, vdso_end - vdso_start, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    for (uint64_t i = 0; i < vdso_end - vdso_start; i += PAGE)
        *(volatile uint8_t *)(at + i) = at[i];
    CHECK(mprotect(at, vdso_end - vdso_start, PROT_READ | PROT_EXEC) == 0);
}

static void leave_vdso_writable(void)
{
    CHECK(mprotect((void *)(uintptr_t)vdso_start, vdso_end - vdso_start, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
}

// The vdso is the kernel's, but a program can write its own copy; then it is passed over as well, for libc's code.
static void test_written_vdso(void)
{
    const uint8_t *code = code_at(NULL, WAIT, sizeof WAIT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct child c = start(code, NULL);
    struct as_range libc = {0};
    for (size_t i = 0; i < c.p->base.mappings.count; ++i) {
        const struct as_mapping *m = &c.p->base.mappings.items[i];
        const char *path = as_mapping_path(&c.p->base, m);
        if (strcmp(path, "[vdso]") == 0)
            vdso_start = m->start, vdso_end = m->end;
        if (strstr(path, "/libc") && (m->prot & AS_PROT_EXEC))
            libc = (struct as_range){m->start, m->end};
    }
    CHECK(libc.end != 0);
    // A forked child has it where we have it. (One that was never written serves.)
    bool has_one = vdso_end != 0 && memmem((const void *)(uintptr_t)vdso_start, vdso_end - vdso_start, WAIT + 2, 2);
    uint64_t in_vdso = as_remote_instruction(c.p, NULL, 0);
    CHECK((in_vdso >= vdso_start && in_vdso < vdso_end) == has_one, "%#" PRIx64, in_vdso);
    end(&c);
    void (*const ways[])(void) = {write_vdso, leave_vdso_writable};
    for (size_t i = 0; has_one && i < 2; ++i) {
        c = start(code, ways[i]);
        CHECK(as_remote_instruction(c.p, NULL, 0) == 0);
        uint64_t found = as_remote_instruction(c.p, &libc, 1);
        CHECK(found >= libc.start && found < libc.end, "%#" PRIx64 ": %s", found, path_of(&c, found));
        end(&c);
    }
}

// Code that does something else than the instruction did, at the time when it is to be used: no call is made at all.
static void test_changed_code(const uint8_t *bytes, size_t size)
{
    const uint8_t *wait = code_at(NULL, WAIT, sizeof WAIT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    uint64_t changed;
    code_at(&changed, bytes, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char folder[] = "/tmp/as-test-XXXXXX";
    CHECK(mkdtemp(folder));
    char *made = share(PAGE);
    snprintf(made, PAGE, "%s/made", folder);
    struct child c = start(wait, NULL);
    struct as_remote r;
    struct as_error err = {0};
    const uint64_t arguments[6] = {(uint64_t)pipe_ends[1], (uint64_t)(uintptr_t)made, 1};
    int64_t result = 0;
    CHECK(as_remote_begin(&r, c.p, &c.p->tracees.items[0], changed, &err), "%s", err.text);
    bool done = as_remote_call(&r, SYS_getpid, arguments, &result, &err);
    CHECK(!done && err.code == AS_DENIED && strstr(err.text, "began another one"), "%s", err.text);
    CHECK(as_remote_end(&r, &err), "%s", err.text);
    // It waits as before, and nothing has been written.
    as_process_resume(c.target);
    await_state(c.pid, 'S');
    struct timespec soon = {.tv_nsec = 50000000};
    nanosleep(&soon, NULL);
    CHECK(state_of(c.pid) == 'S');
    end(&c);
    CHECK(rmdir(folder) == 0);
}

static bool has_32_bit_calls(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        long number = 20; // getpid
        __asm__ volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
        _exit(number != getpid());
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The instruction itself serves.
static void test_a_call(void)
{
    const uint8_t *wait = code_at(NULL, WAIT, sizeof WAIT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct child c = start(wait, NULL);
    struct as_remote r;
    struct as_error err = {0};
    const uint64_t none[6] = {0};
    int64_t result = 0;
    const struct as_mapping *code = mapping_of(&c, (uint64_t)(uintptr_t)getpid);
    CHECK(code);
    const struct as_range libc = {code->start, code->end};
    uint64_t instruction = as_remote_instruction(c.p, &libc, 1);
    CHECK(instruction != 0);
    CHECK(as_remote_begin(&r, c.p, &c.p->tracees.items[0], instruction, &err), "%s", err.text);
    CHECK(as_remote_call(&r, SYS_getpid, none, &result, &err), "%s", err.text);
    CHECK(result == c.pid);
    CHECK(as_remote_end(&r, &err), "%s", err.text);
    end(&c);
}

// One that never returns is ended when its time is over, and the thread waits as before; others go on.
static void test_an_endless_call(void)
{
    const uint8_t *wait = code_at(NULL, WAIT, sizeof WAIT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct child c = start(wait, NULL);
    struct as_remote r;
    struct as_error err = {0};
    const uint64_t none[6] = {0};
    int64_t result = 0;
    const struct as_mapping *code = mapping_of(&c, (uint64_t)(uintptr_t)getpid);
    CHECK(code);
    const struct as_range libc = {code->start, code->end};
    uint64_t instruction = as_remote_instruction(c.p, &libc, 1);
    CHECK(as_remote_begin(&r, c.p, &c.p->tracees.items[0], instruction, &err), "%s", err.text);
    r.limit_ns = 50000000;
    CHECK(!as_remote_call(&r, SYS_pause, none, &result, &err));
    CHECK(err.code == AS_DENIED && strstr(err.text, "had not returned after 50 ms and was interrupted"), "%s",
          err.text);
    r.limit_ns = AS_REMOTE_LIMIT_NS;
    CHECK(as_remote_call(&r, SYS_getpid, none, &result, &err), "%s", err.text);
    CHECK(result == c.pid);
    CHECK(as_remote_end(&r, &err), "%s", err.text);
    as_process_resume(c.target);
    await_state(c.pid, 'S');
    as_target_close(c.target);
    int status;
    CHECK(write(pipe_ends[1], "", 1) == 1); // what it waits for
    CHECK(waitpid(c.pid, &status, 0) == c.pid && WIFEXITED(status) && WEXITSTATUS(status) == 1, "%#x", status);
}

static pid_t child_of(pid_t pid)
{
    char path[64];
    char text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    CHECK(file && fgets(text, sizeof text, file));
    fclose(file);
    return (pid_t)strtol(text, NULL, 10);
}

static int late;

static void end_its_child(void *context)
{
    const struct child *c = context;
    late++;
    pid_t child = child_of(c->pid);
    CHECK(child > 0 && kill(child, SIGKILL) == 0);
}

// One that cannot even be interrupted is told of, and waited for: vfork, whose child stands still.
static void test_a_call_that_cannot_be_ended(void)
{
    const uint8_t *wait = code_at(NULL, WAIT, sizeof WAIT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct child c = start(wait, NULL);
    struct as_remote r;
    struct as_error err = {0};
    const uint64_t arguments[6] = {CLONE_VM | CLONE_VFORK, 16};
    int64_t result = 0;
    const struct as_mapping *code = mapping_of(&c, (uint64_t)(uintptr_t)getpid);
    CHECK(code);
    const struct as_range libc = {code->start, code->end};
    uint64_t instruction = as_remote_instruction(c.p, &libc, 1);
    CHECK(as_remote_begin(&r, c.p, &c.p->tracees.items[0], instruction, &err), "%s", err.text);
    r.limit_ns = 50000000;
    r.late = end_its_child;
    r.context = &c;
    CHECK(as_remote_call(&r, SYS_clone, arguments, &result, &err), "%s", err.text);
    CHECK(late == 1 && result > 0, "%d, %" PRId64, late, result);
    CHECK(as_remote_end(&r, &err), "%s", err.text);
    end(&c);
}

int main(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL); // as as_tracee_await wants it
    alarm(100);
    ready = share(sizeof *ready);
    CHECK(pipe(pipe_ends) == 0);
    test_a_call();
    test_an_endless_call();
    test_a_call_that_cannot_be_ended();
    test_own_memory();
    test_written_vdso();
    test_changed_code(OTHER_CALL, sizeof OTHER_CALL);
    if (has_32_bit_calls())
        test_changed_code(OTHER_TABLE, sizeof OTHER_TABLE);
    else
        puts("this kernel takes no 32-bit calls: not tried");
    return 0;
}

#else

int main(void)
{
    puts("on x86-64 only");
    return 77;
}

#endif
