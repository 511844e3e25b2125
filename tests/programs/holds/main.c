// SPDX-License-Identifier: MIT
// holds HOW TILES: one thread with known values in all of its registers. Says what it holds, then "ready"; inspects them when stdin
// ends or SIGTERM comes, and says what has changed. Exit code 0: nothing.
//
//   spins   never enters the kernel; SIGTERM ends it
//   reads   waits for a byte from stdin
//
//   none       without the right to AMX's tiles
//   permitted  with it, but they have never been used
//   used       with values in them
//   released   they have been used before, and are free again
//
// Where the processor has no tiles, the last three are as the first.
#define _GNU_SOURCE
#include "hold.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

enum { SET_GS = 0x1001, GET_GS = 0x1004, GET_FS = 0x1003 };
static const uint64_t GS = 0x123456789000;
enum { MINE = 4711 }; // no errno that a libc sets

static struct hold held;
static struct hold tiles;

static void on_term(int signal)
{
    (void)signal;
    held.go = 1;
}

static uint64_t base(int which)
{
    uint64_t value = 0;
    syscall(SYS_arch_prctl, which, &value);
    return value;
}

static uint64_t choose_features(const char *how)
{
    uint64_t all = hold_features();
    uint64_t without = all & ~(uint64_t)HOLD_TILEDATA;
    if (strcmp(how, "none") == 0 || without == all)
        return without;
    int failure = hold_ask_for_tiles();
    if (failure != 0) {
        printf("no right to the tiles: %s\n", strerror(failure));
        return without;
    }
    if (strcmp(how, "released") == 0) {
        hold_prepare(&tiles, HOLD_TILECFG | HOLD_TILEDATA, 1);
        tiles.go = 1;
        hold_spin(&tiles); // which puts back what was before: not in use
    }
    return strcmp(how, "used") == 0 ? all : without;
}

static int say(const char *what)
{
    puts(what);
    return 1;
}

// After the fact: puts may change errno, and nothing else may come before.
static int judge(int number, uint64_t fs, int reads)
{
    if (number != MINE) {
        printf("errno is %d, not %d\n", number, MINE);
        return 1;
    }
    if (base(GET_GS) != GS || base(GET_FS) != fs)
        return say("FS or GS has another base");
    if (reads && (held.result != 1 || (char)held.byte != '.')) {
        printf("read returned %lld\n", (long long)held.result);
        return 1;
    }
    const char *changed = hold_difference(&held);
    if (changed) {
        printf("changed: %s\n", changed);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int reads = argc > 1 && strcmp(argv[1], "reads") == 0;
    char names[200];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, on_term);
    free(malloc(100));
    uint64_t features = choose_features(argc > 2 ? argv[2] : "none");
    syscall(SYS_arch_prctl, SET_GS, GS);
    uint64_t fs = base(GET_FS);
    hold_prepare(&held, features, (uint64_t)getpid());
    printf("holds %s; errno, FS, GS, general registers\nready\n", hold_names(features, names, sizeof names));
    fflush(stdout);
    errno = MINE;
    if (reads)
        hold_read(&held);
    else
        hold_spin(&held);
    return judge(errno, fs, reads);
}

#endif // on aarch64: aarch64.c
