// SPDX-License-Identifier: MIT
// Interrupts the recorder at its instructions, one after another: x86-64's trap flag, which the program sets itself around its calls of
// malloc. The handler runs on a stack that is a variable of main's, above all that is interrupted.
//
//   stepped alternate   the handler allocates. A block's size says by which functions it was made: SIZE + 16 * path, and each bit of the path,
//                       the lowest first, is left (0) or right (1), innermost first. The handler's blocks have HANDLER_SIZE
//   stepped left [N]    the handler leaves by siglongjmp, from each of the first instructions in turn, or from each N-th. Then KEPT blocks of
//                       SIZE are made
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRAP = 0x100, PATH_BITS = 6, PATHS = 1 << PATH_BITS, EVERY = 97, LEFT = 400, KEPT = 1000 };
enum { SIZE = 504, HANDLER_SIZE = 8008, ROOM = 64 << 10, MOST = 100000, MOST_RANGES = 8 };

static struct {
    unsigned long start, end;
} ranges[MOST_RANGES]; // of the agent's code
static int range_count;
static void *volatile kept[MOST];
static volatile int kept_count;
static volatile long steps;
static volatile long leaves_at; // 0: the handler allocates
static sigjmp_buf way;
static volatile bool stepping = true;

static void find_agent(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[600];
    while (file && range_count < MOST_RANGES && fgets(line, sizeof line, file))
        if (strstr(line, "r-xp") && strstr(line, "libarenascope") &&
            sscanf(line, "%lx-%lx", &ranges[range_count].start, &ranges[range_count].end) == 2)
            range_count++;
    if (file)
        fclose(file);
}

static bool is_agents(unsigned long pc)
{
    for (int i = 0; i < range_count; i++)
        if (pc >= ranges[i].start && pc < ranges[i].end)
            return true;
    return false;
}

static inline __attribute__((always_inline)) void step(bool on)
{
    if (on)
        __asm__ volatile("pushfq; orq $0x100,(%%rsp); popfq" ::: "memory", "cc");
    else
        __asm__ volatile("pushfq; andq $~0x100,(%%rsp); popfq" ::: "memory", "cc");
}

__attribute__((noinline)) static void in_handler(void)
{
    if (kept_count < MOST)
        kept[kept_count++] = malloc(HANDLER_SIZE - 16);
    __asm__ volatile("");
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    const ucontext_t *c = context;
    (void)signal;
    (void)info;
    if (!is_agents((unsigned long)c->uc_mcontext.gregs[REG_RIP]))
        return;
    steps++;
    if (leaves_at == 0 && steps % EVERY == 0)
        in_handler();
    else if (leaves_at != 0 && steps == leaves_at)
        siglongjmp(way, 1);
}

static void *go_on(unsigned path, int depth, size_t size);

// Behind the call each has an instruction of its own: neither is the other, and the call is no jump.
#define FUNCTION(name)                                                                                                 \
    __attribute__((noinline)) static void *name(unsigned path, int depth, size_t size)                                 \
    {                                                                                                                  \
        void *volatile made = go_on(path, depth, size);                                                                \
        __asm__ volatile("# " #name);                                                                                  \
        return made;                                                                                                   \
    }
FUNCTION(left)
FUNCTION(right)

static inline __attribute__((always_inline)) void *go_on(unsigned path, int depth, size_t size)
{
    if (depth > 0)
        return path & 1 ? right(path >> 1, depth - 1, size) : left(path >> 1, depth - 1, size);
    step(stepping);
    void *made = malloc(size);
    step(false);
    return made;
}

// The outermost function is the path's last bit: the first one called is the first bit of what is left.
static void *make(unsigned path)
{
    unsigned outwards = 0;
    for (int bit = 0; bit < PATH_BITS; bit++)
        outwards |= (path >> bit & 1) << (PATH_BITS - 1 - bit);
    size_t size = SIZE + 16 * path - 16;
    return outwards & 1 ? right(outwards >> 1, PATH_BITS - 1, size) : left(outwards >> 1, PATH_BITS - 1, size);
}

int main(int count, char **words)
{
    char room[ROOM];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    setvbuf(stdout, NULL, _IONBF, 0);
    find_agent();
    if (count < 2 || sigaltstack(&stack, NULL) != 0 || sigaction(SIGTRAP, &action, NULL) != 0)
        return 2;
    if (strcmp(words[1], "left") == 0) {
        volatile long every = count > 2 ? atol(words[2]) : 1;
        for (volatile long at = 1; at <= LEFT; at++) {
            steps = 0;
            leaves_at = at * every;
            if (sigsetjmp(way, 1) == 0)
                kept[MOST - 1] = make(0);
        }
        stepping = false;
        for (int i = 0; i < KEPT; i++)
            kept[kept_count++] = make(1);
    } else {
        for (unsigned path = 0; path < PATHS; path++)
            kept[kept_count++] = make(path);
    }
    printf("%ld steps\n", steps);
    pause();
    return 0;
}
