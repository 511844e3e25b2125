// SPDX-License-Identifier: MIT
// The room below the limits of memory, on a made-up machine: hierarchies of both versions, nested limits, caches, and containers.
#include "support/check.h"
#include "target/process/read/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MB UINT64_C(1000000)
static const char FIRST[] = "cgroup:[4026531835]";
static const char OTHER[] = "cgroup:[4026532199]";

// Makes a file below the made-up root, which is the working directory, with all folders above it.
static void make(const char *path, const char *content)
{
    char name[512];
    snprintf(name, sizeof name, "%s", path);
    for (char *at = name; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        CHECK(mkdir(name, 0755) == 0 || errno == EEXIST);
    }
    AS_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content), "%s", path);
}

static void make_group(const char *dir, const char *name, const char *content)
{
    char path[512];
    snprintf(path, sizeof path, "%s/cgroup.procs", dir);
    make(path, "");
    snprintf(path, sizeof path, "%s/%s", dir, name);
    make(path, content);
}

// A machine with 64 GB, of which 8 are available. Each in a folder of its own, which is the working directory then.
static void make_machine(const char *name, const char *namespace, const char *group, const char *mounts)
{
    CHECK(mkdir(name, 0755) == 0 && chdir(name) == 0);
    make("proc/7/cgroup", group);
    make("proc/self/mountinfo", mounts);
    make("proc/self/ns/none", "");
    CHECK(symlink(namespace, "proc/self/ns/cgroup") == 0);
    make("proc/meminfo", "MemTotal:       64000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"
                         "CommitLimit:    32000000 kB\nCommitted_AS:   31000000 kB\n");
    make("proc/sys/vm/overcommit_memory", "0\n");
}

static bool read_room(uint64_t enough, struct as_room_left *left, char *why)
{
    static struct as_room room;
    AS_CLEANUP_FD int process = open("proc/7", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = as_room_open(&room, process, ".") && as_room_read(&room, enough, left);
    snprintf(why, AS_ROOM_TEXT, "%s", room.why);
    as_room_close(&room);
    return ok;
}

static void expect(uint64_t bytes, const char *where)
{
    struct as_room_left left;
    char why[AS_ROOM_TEXT];
    CHECK(read_room(50 * MB, &left, why), "%s", why);
    CHECK(left.bytes == bytes, "%llu: %s", (unsigned long long)left.bytes, left.where);
    CHECK(strstr(left.where, where), "%s", left.where);
}

static void expect_unknown(const char *what)
{
    struct as_room_left left;
    char why[AS_ROOM_TEXT];
    CHECK(!read_room(50 * MB, &left, why), "%s", left.where);
    CHECK(strstr(why, what), "%s", why);
}

#define V2 "25 20 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "30 20 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
// What the machine has left: 8 GB less a 64th of all.
#define MACHINE ((UINT64_C(8000000) - 1000000) * 1024)

static void test_v2(void)
{
    make_machine("v2", FIRST, "0::/pod/box\n", "20 1 8:1 / / rw - ext4 /dev/sda rw\n" V2);
    make_group("sys/fs/cgroup", "cgroup.controllers", "memory\n");
    make_group("sys/fs/cgroup/pod/box", "cgroup.controllers", "memory\n");
    make_group("sys/fs/cgroup/pod", "cgroup.controllers", "memory\n");
    expect(MACHINE, "the machine");
    make("sys/fs/cgroup/pod/box/memory.max", "600000000\n");
    expect_unknown("memory.max of its memory cgroup /pod/box");
    make("sys/fs/cgroup/pod/box/memory.current", "500000000\n");
    make("sys/fs/cgroup/pod/box/memory.max", "max\n");
    expect(MACHINE, "the machine");
    make("sys/fs/cgroup/pod/box/memory.max", "600000000\n");
    expect(100 * MB, "/pod/box has room for 100.0 MB (memory.max 600.0 MB, used 500.0 MB)");
    make("sys/fs/cgroup/pod/memory.max", "700000000\n");
    make("sys/fs/cgroup/pod/memory.current", "620000000\n");
    expect(80 * MB, "/pod has room for 80.0 MB (memory.max");
    make("sys/fs/cgroup/pod/box/memory.high", "560000000\n");
    expect(60 * MB, "/pod/box has room for 60.0 MB (memory.high");
    // The cache counts, and is searched for, where there is little without it.
    make("sys/fs/cgroup/pod/box/memory.current", "540000000\n");
    expect(20 * MB, "memory.high");
    make("sys/fs/cgroup/pod/box/memory.stat",
         "anon 1\nfile 99000000\nfile_dirty 4000000\nfile_writeback 1000000\ninactive_file 30000000\n");
    expect(45 * MB, "(memory.high 560.0 MB, used 515.0 MB)");
    make("sys/fs/cgroup/pod/box/memory.current", "580000000\n"); // past it already
    expect(5 * MB, "memory.high");
    make("sys/fs/cgroup/pod/box/memory.current", "590000000\n");
    expect(0, "memory.high");
    make("sys/fs/cgroup/pod/box/memory.current", "540000000\n");
    make("sys/fs/cgroup/pod/box/memory.min", "1000000\n");
    expect(20 * MB, "memory.high");
}

static void test_v1(void)
{
    make_machine("v1", FIRST, "9:cpu,cpuacct:/x\n4:memory:/a b/c\n0::/elsewhere\n",
                 "31 20 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" V1
                 "41 20 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    make_group("sys/fs/cgroup/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    make_group("sys/fs/cgroup/memory/a b", "memory.limit_in_bytes", "800000000\n");
    make("sys/fs/cgroup/memory/a b/memory.usage_in_bytes", "730000000\n");
    make_group("sys/fs/cgroup/memory/a b/c", "memory.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/memory/a b/c/memory.usage_in_bytes", "600000000\n");
    expect(70 * MB, "/a b has room for 70.0 MB (memory.limit_in_bytes 800.0 MB");
    make("sys/fs/cgroup/memory/a b/c/memory.memsw.limit_in_bytes", "650000000\n");
    make("sys/fs/cgroup/memory/a b/c/memory.memsw.usage_in_bytes", "610000000\n");
    expect(40 * MB, "/a b/c has room for 40.0 MB (memory.memsw.limit_in_bytes");
    // The numbers are of the cgroup with all below it.
    make("sys/fs/cgroup/memory/a b/c/memory.stat", "inactive_file 9000000\ntotal_inactive_file 7000000\n");
    expect(47 * MB, "memory.memsw");
}

// Everything in the root: nothing limits it but the machine, mounted or not.
static void test_no_cgroup(void)
{
    make_machine("root", FIRST, "0::/\n", "");
    expect(MACHINE, "the machine has 7168.0 MB left (MemAvailable 8192.0 MB)");
    CHECK(chdir("..") == 0);
    make_machine("no-controller", FIRST, "1:name=systemd:/a\n", V1);
    expect(MACHINE, "the machine");
    CHECK(unlink("proc/7/cgroup") == 0); // a kernel without cgroups
    expect(MACHINE, "the machine");
    make("proc/meminfo", "MemTotal: 1 kB\n");
    expect_unknown("MemAvailable");
}

static void test_container(void)
{
    // The mount shows but the container's own part.
    make_machine("part", FIRST, "4:memory:/docker/0123/app\n",
                 "30 20 0:30 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    make_group("sys/fs/cgroup/memory/app", "memory.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/memory/app/memory.usage_in_bytes", "400000000\n");
    make_group("sys/fs/cgroup/memory", "memory.limit_in_bytes", "500000000\n");
    make("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000000\n");
    make("sys/fs/cgroup/memory/app/memory.stat", "hierarchical_memory_limit 500000000\n");
    expect(100 * MB, "cgroup / has room");
    make("sys/fs/cgroup/memory/app/memory.stat", "hierarchical_memory_limit 450000000\n");
    expect_unknown("a memory cgroup above those that can be seen here limits it to 450.0 MB");
    make("sys/fs/cgroup/memory/app/memory.memsw.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/memory/app/memory.memsw.usage_in_bytes", "400000000\n");
    make("sys/fs/cgroup/memory/app/memory.stat",
         "hierarchical_memory_limit 500000000\nhierarchical_memsw_limit 9223372036854771712\n");
    expect(100 * MB, "cgroup / has room");
    make("sys/fs/cgroup/memory/app/memory.stat",
         "hierarchical_memory_limit 500000000\nhierarchical_memsw_limit 520000000\n");
    expect_unknown("a memory cgroup above those that can be seen here limits it to 520.0 MB");
    make_group("sys/fs/cgroup/memory4", "memory.limit_in_bytes", "9223372036854771712\n");
    make("sys/fs/cgroup/memory4/memory.usage_in_bytes", "1\n");
    make("proc/7/cgroup", "4:memory:/docker/01234\n"); // another container's, whose name begins as ours
    expect_unknown("/docker/01234 cannot be seen here");
    CHECK(chdir("..") == 0);

    make_machine("namespace", OTHER, "0::/\n", "25 20 0:22 / /sys/fs/my\\040groups ro - cgroup2 cgroup ro\n");
    expect_unknown("cannot be seen");
    make_group("sys/fs/my groups", "memory.max", "500000000\n");
    make("sys/fs/my groups/memory.current", "440000000\n");
    expect(60 * MB, "cgroup / has room");
    make("sys/fs/cgroup.procs", "");
    make_group("sys/fs/0123", "memory.max", "max\n");
    make("sys/fs/0123/memory.current", "1\n");
    make("proc/7/cgroup", "0::/../0123\n");
    expect_unknown("/../0123 cannot be seen");
}

static void test_promises(void)
{
    struct as_room_left left;
    char why[AS_ROOM_TEXT];
    make_machine("promises", FIRST, "0::/\n", "");
    CHECK(read_room(MB, &left, why) && left.promised == UINT64_MAX);
    make("proc/sys/vm/overcommit_memory", "2\n");
    CHECK(read_room(MB, &left, why) && left.promised == UINT64_C(1000000) * 1024);
}

int main(void)
{
    static void (*const tests[])(void) = {test_v2, test_v1, test_no_cgroup, test_container, test_promises};
    char folder[] = "/tmp/arenascope-room-XXXXXX";
    CHECK(mkdtemp(folder));
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        CHECK(chdir(folder) == 0);
        tests[i]();
    }
    char remove[64];
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    CHECK(chdir("/") == 0 && system(remove) == 0);
    return 0;
}
