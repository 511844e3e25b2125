// SPDX-License-Identifier: MIT
// A server's way: allocates as root, becomes another user (argv[1], a number), says "ready", and waits. Of what it frees a part
// was written, and a part was only ever read: pages that map the zero page, which is in nobody's Rss. With a second argument
// it may not call move_pages from then on (EPERM), as in many a container.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 64, SIZE = 96 * 1024, PAGE = 4096 };

static void forbid_move_pages(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), // the system call's number
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_move_pages, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

int main(int argc, char **argv)
{
    static char *blocks[BLOCKS];
    volatile char seen = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        if (!blocks[i])
            abort();
        for (int at = 0; i % 2 && at < SIZE; at += PAGE)
            seen ^= ((volatile char *)blocks[i])[at];
        if (i % 2 == 0)
            memset(blocks[i], 1, SIZE);
    }
    void *pin = malloc(SIZE); // so that malloc itself gives nothing back
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    const unsigned user = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    if (!pin || setgroups(0, NULL) != 0 || setgid(user) != 0 || setuid(user) != 0)
        abort();
    if (argc > 2)
        forbid_move_pages();
    puts("ready");
    pause();
    return 0;
}
