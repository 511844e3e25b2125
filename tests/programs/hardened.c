// SPDX-License-Identifier: MIT
// hardened HOW COMMAND...: runs the command under a rule that services have.
//
// It may not run memory that was writable:
//   kernel   by the kernel's own rule (PR_SET_MDWE, since Linux 6.3; exit code 77: there is none)
//   filter   by a seccomp filter, as systemd's MemoryDenyWriteExecute=yes: a call that would make memory executable fails
// A filter lets a system call fail:
//   sockets  socket(AF_UNIX), as systemd's RestrictAddressFamilies=AF_INET
//   prctl    all of prctl
//   table=N  mprotect of N bytes, to be writable: as many as the segment of libc has that has its table of symbols
//   threads  clone and clone3
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NO_RULE = 77, SET_MDWE = 65, REFUSE_EXEC_GAIN = 1, CLONE3 = 435 };

#define ARGUMENT(i) offsetof(struct seccomp_data, args[i]) // its lower half: little endian

static int set_filter(struct sock_fprog program)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define SET_FILTER(code) set_filter((struct sock_fprog){sizeof(code) / sizeof *(code), code})

static int forbid_sockets(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(0)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return SET_FILTER(code);
}

static int forbid_calls(unsigned one, unsigned other)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return SET_FILTER(code);
}

static int forbid_writing(unsigned bytes)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bytes, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    void *page = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return SET_FILTER(code) && page != MAP_FAILED && mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0;
}

static int forbid_code(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pkey_mprotect, 5, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        // mmap: writable and executable at once
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 3, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        // mprotect: executable
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return SET_FILTER(code);
}

// What was writable does not become executable.
static int is_code_refused(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0;
}

// Whether the rule holds from now on; < 0: there is none of this name.
static int rule(const char *how)
{
    if (strcmp(how, "kernel") == 0)
        return prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) != 0 ? -NO_RULE : is_code_refused();
    if (strcmp(how, "filter") == 0)
        return forbid_code() && is_code_refused();
    if (strcmp(how, "sockets") == 0)
        return forbid_sockets() && socket(AF_UNIX, SOCK_STREAM, 0) < 0;
    if (strcmp(how, "prctl") == 0)
        return forbid_calls(SYS_prctl, SYS_prctl) && prctl(PR_GET_DUMPABLE) < 0;
    if (strncmp(how, "table=", 6) == 0)
        return forbid_writing((unsigned)atoi(how + 6));
    if (strcmp(how, "threads") == 0)
        return forbid_calls(SYS_clone, CLONE3) && fork() < 0;
    return -2;
}

int main(int argc, char **argv)
{
    int holds = argc < 3 ? -2 : rule(argv[1]);
    if (holds <= 0)
        return holds < 0 ? -holds : 3;
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 5;
}
