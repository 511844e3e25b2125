// SPDX-License-Identifier: MIT
// Files of /proc whose lines may be long: a process may be in 65,536 groups, and the line of groups stands before what we ask for.
#include "support/check.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

// A file like the kernel's, with so many groups; it has no name.
static int make_status(unsigned groups)
{
    int fd = memfd_create("status", MFD_CLOEXEC);
    CHECK(fd >= 0);
    dprintf(fd, "Name:\tSeccomp:\t1\nState:\tS (sleeping)\nTracerPid:\t12\nGroups:\t");
    for (unsigned i = 0; i < groups; i++)
        dprintf(fd, "%u ", 4000000000U + i);
    dprintf(fd, "\nVmPTE:\t      88 kB\nSigCgt:\t0000000180014002\nSeccomp:\t2\nSeccomp_filters:\t3\n");
    return fd;
}

static void test_status(unsigned groups)
{
    char name[48];
    AS_CLEANUP_FD int fd = make_status(groups);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    CHECK(as_proc_status(AT_FDCWD, name, "TracerPid:") == 12);
    CHECK(as_proc_status(AT_FDCWD, name, "VmPTE:") == 88);
    CHECK(as_proc_status(AT_FDCWD, name, "Seccomp:") == 2, "%u groups", groups);
    CHECK(as_proc_status_mask(AT_FDCWD, name, "SigCgt:") == 0x180014002);
    CHECK(as_proc_status(AT_FDCWD, name, "State:") == AS_PROC_NONE); // no number
    CHECK(as_proc_status(AT_FDCWD, name, "NoSuch:") == AS_PROC_NONE);
}

int main(void)
{
    static const unsigned groups[] = {0, 1000, 65536};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        test_status(groups[i]);
    CHECK(as_proc_status(AT_FDCWD, "/proc/self/no such file", "Seccomp:") == AS_PROC_NONE);
    CHECK(as_proc_state(getpid()) == 'R');
    CHECK(as_proc_state(0) == '\0');
    return 0;
}
