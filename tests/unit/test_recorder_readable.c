// SPDX-License-Identifier: MIT
// The recorder takes memory for readable only where the kernel has read it: a sandbox's answer says nothing of the memory.
#include "recorder/recorder.h"
#include "support/check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// All other calls are allowed.
static bool forbid(uint32_t call, uint32_t error)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof steps / sizeof *steps, .filter = steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void test_what_the_kernel_says(uintptr_t page)
{
    CHECK(as_recorder_is_readable(page));
    CHECK(mprotect((void *)page, 1, PROT_NONE) == 0);
    CHECK(!as_recorder_is_readable(page));
    CHECK(mprotect((void *)page, 1, PROT_READ) == 0);
    CHECK(as_recorder_is_readable(page));
}

static void test_in_a_sandbox(uintptr_t page, uint32_t error)
{
    enum { NO_FILTER = 77 };
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(!forbid(SYS_rt_sigprocmask, error) ? NO_FILTER : as_recorder_is_readable(page));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER)
        puts("this kernel has no seccomp filters");
    else
        CHECK(WEXITSTATUS(status) == 0);
}

int main(void)
{
    void *page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    test_what_the_kernel_says((uintptr_t)page);
    test_in_a_sandbox((uintptr_t)page, EPERM);
    test_in_a_sandbox((uintptr_t)page, ENOSYS);
    CHECK(munmap(page, 1) == 0 && !as_recorder_is_readable((uintptr_t)page));
    puts("ok");
    return 0;
}
