// SPDX-License-Identifier: MIT
// Files are opened below a root directory, and nowhere else, by either way; and nothing but files.
#include "support/check.h"
#include "target/paths.h"
#include "target/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*const ways[])(int root, const char *path) = {as_path_find, as_path_find_by_steps};
static int root;

static void write_file(const char *path, const char *content)
{
    AS_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
}

// What the file holds that `path` leads to: one character, '-' for none.
static char content(int (*find)(int root, const char *path), int below, const char *path)
{
    struct stat stat;
    char byte = '?';
    AS_CLEANUP_FD int handle = find(below, path);
    AS_CLEANUP_FD int fd = as_path_open(handle, &stat);
    if (fd < 0)
        return '-';
    CHECK(read(fd, &byte, 1) == 1);
    return byte;
}

static void lead(const char *path, char wanted)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char found = content(ways[i], root, path);
        if (found == wanted)
            continue;
        fprintf(stderr, "way %zu: '%s' leads to '%c', not to '%c'\n", i, path, found, wanted);
        exit(1);
    }
}

static void make_tree(void)
{
    write_file("secret", "S");
    CHECK(mkdir("root", 0755) == 0 && mkdir("root/a", 0755) == 0 && mkdir("root/a/b", 0755) == 0);
    write_file("root/file", "F");
    write_file("root/a/b/deep", "D");
    write_file("root/secret", "I");
    CHECK(symlink("/file", "root/a/absolute") == 0);
    CHECK(symlink("../../../../file", "root/a/upwards") == 0);
    CHECK(symlink("../../../secret", "root/a/b/out") == 0);
    CHECK(symlink("/a/b", "root/folder") == 0);
    CHECK(symlink("b", "root/a/same") == 0);
    CHECK(symlink("loop", "root/loop") == 0);
    CHECK(symlink("/nowhere", "root/dangling") == 0);
    CHECK(symlink("/proc/self/exe", "root/proc") == 0);
    CHECK(symlink("file/", "root/slash") == 0);
    CHECK(mkfifo("root/fifo", 0644) == 0);
    CHECK(symlink("/fifo", "root/to-fifo") == 0);
    CHECK(symlink("/dev/null", "device") == 0);
}

static void test_where_names_lead(void)
{
    lead("file", 'F');
    lead("/file", 'F');
    lead("//a/./b//deep", 'D');
    lead("a/absolute", 'F');
    lead("a/upwards", 'F');
    lead("../../../file", 'F');
    lead("../secret", 'I');
    lead("a/b/out", 'I'); // the one inside
    lead("folder/deep", 'D');
    lead("a/same/../../file", 'F');
    lead("a/same/out", 'I');
    lead("folder/../absolute", 'F');
}

static void test_what_is_not_opened(void)
{
    static const char *const names[] = {"",         ".",     "/",      "..",     "a",       "a/",
                                        "file/",    "slash", "nope",   "file/x", "fifo",    "loop",
                                        "dangling", "proc",  "fifo/x", "a/nope", "to-fifo", "a/b/../../nope"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        lead(names[i], '-');
}

static void test_what_is_too_long(void)
{
    static char path[PATH_MAX + 100];
    memset(path, 'x', 300);
    lead(path, '-');
    for (size_t i = 0; i + 2 < sizeof path; i += 2)
        memcpy(path + i, "a/", 3);
    lead(path, '-');
}

// Below our own root there are devices, and what the kernel makes up.
static void test_the_whole_machine(void)
{
    static const char *const names[] = {"/dev/null",
                                        "/dev/tty",
                                        "/proc/self/exe",
                                        "/proc/self/status",
                                        "/proc/kmsg",
                                        "/proc/self/root/etc/passwd",
                                        "/proc/self/cwd/secret",
                                        "/sys/kernel/notes"};
    char path[PATH_MAX];
    AS_CLEANUP_FD int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(top >= 0 && getcwd(path, sizeof path - 10));
    strcat(path, "/secret");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        CHECK(content(ways[i], top, path) == 'S');
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            CHECK(content(ways[i], top, names[k]) == '-');
        CHECK(content(ways[i], top, "device") == '-');
    }
}

// Another's lease would be waited for for 45 s.
static void test_a_lease(void)
{
    AS_CLEANUP_FD int fd = open("root/file", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        printf("no lease to be had here: %s\n", strerror(errno));
        return;
    }
    uint64_t began = as_now_ns();
    AS_CLEANUP_FD int opened = as_path_open_below(root, "file");
    CHECK(opened < 0 && errno == EWOULDBLOCK);
    CHECK(as_now_ns() - began < UINT64_C(10000000000));
}

// As many descriptors as there were before.
static void test_nothing_stays_open(void)
{
    int next = dup(0);
    close(next);
    char deep[2048] = "";
    for (int i = 0; i < 200; i++)
        strcat(deep, "a/b/../../");
    strcat(deep, "file");
    lead(deep, 'F');
    test_where_names_lead();
    test_what_is_not_opened();
    int after = dup(0);
    close(after);
    CHECK(next == after);
}

int main(void)
{
    char folder[] = "/tmp/test_paths.XXXXXX";
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    signal(SIGIO, SIG_IGN);
    make_tree();
    root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(root >= 0);
    test_where_names_lead();
    test_what_is_not_opened();
    test_what_is_too_long();
    test_the_whole_machine();
    test_a_lease();
    test_nothing_stays_open();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") == 0 && system(command) == 0 ? 0 : 1;
}
