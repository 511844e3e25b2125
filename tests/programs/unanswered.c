// SPDX-License-Identifier: MIT
// unanswered FILE: a process that maps, as a library is, a file of its own file system, which never answers a read. Says "ready", or
// "no FUSE"; ends when stdin does. Needs root.
//
// The file system, mounted on FILE, has this file only. A child serves it by the kernel's protocol (linux/fuse.h), without a library.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { REQUEST_MOST = 1 << 17, SIZE = 1 << 16 };

static int fuse;

static void reply(const struct fuse_in_header *to, int error, const void *body, size_t size)
{
    struct fuse_out_header head = {.len = (uint32_t)(sizeof head + size), .error = error, .unique = to->unique};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)(uintptr_t)body, size}};
    if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
        err(1, "reply to %u", to->opcode);
}

static void answer(const struct fuse_in_header *request)
{
    const struct fuse_init_out begin = {.major = FUSE_KERNEL_VERSION,
                                        .minor = FUSE_KERNEL_MINOR_VERSION,
                                        .max_readahead = SIZE,
                                        .max_write = SIZE,
                                        .flags = FUSE_ASYNC_READ};
    const struct fuse_attr_out facts = {
        .attr_valid = 3600,
        .attr = {.ino = FUSE_ROOT_ID, .size = SIZE, .blocks = SIZE / 512, .mode = S_IFREG | 0555, .nlink = 1}};
    const struct fuse_open_out open = {.open_flags = FOPEN_KEEP_CACHE};
    switch (request->opcode) {
    case FUSE_INIT:
        reply(request, 0, &begin, sizeof begin);
        break;
    case FUSE_GETATTR:
        reply(request, 0, &facts, sizeof facts);
        break;
    case FUSE_OPEN:
        reply(request, 0, &open, sizeof open);
        break;
    case FUSE_READ: // never
    case FUSE_INTERRUPT:
    case FUSE_FORGET:
        break;
    default:
        reply(request, -ENOSYS, NULL, 0);
    }
}

// With the process that serves it the file system ends, and a reader that waits for an answer gets an error. (A thread of the process that
// has mapped the file would not end before the file system has answered.)
static void serve(void)
{
    static _Alignas(struct fuse_in_header) char request[REQUEST_MOST];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(fuse, request, sizeof request) > 0)
        answer((const struct fuse_in_header *)request);
    _exit(0);
}

// For this process alone.
static void mount_on(const char *path)
{
    char options[128];
    fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=100555,user_id=0,group_id=0,allow_other", fuse);
    if (fuse < 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("unanswered", path, "fuse", MS_NODEV | MS_NOSUID, options) != 0) {
        printf("no FUSE: %s\n", strerror(errno));
        exit(0);
    }
    if (fork() == 0)
        serve();
    close(fuse);
}

int main(int count, char **words)
{
    char byte;
    if (count != 2)
        errx(2, "unanswered FILE");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mount_on(words[1]);
    int file = open(words[1], O_RDONLY | O_CLOEXEC);
    if (file < 0 || mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
        err(1, "%s", words[1]);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    _exit(0);
}
