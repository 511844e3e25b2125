// SPDX-License-Identifier: MIT
// What main.c and hold.c are on x86-64. On aarch64 TILES means nothing; a thread that spins holds values in its SVE registers as well,
// which a system call would clear.
#define _GNU_SOURCE
#if defined(__aarch64__)

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    HAS_SVE = 1 << 22, // HWCAP_SVE, which older headers lack, as they do PR_SVE_GET_VL
    GET_VECTOR_LENGTH = 51,
    LENGTH = 0xffff,
    VECTORS = 32 * 256,
    PREDICATES = 17 * 32, // p0 to p15, and FFR
    MINE = 4711,          // no errno that a libc sets
};
struct control {
    uint64_t fpcr, fpsr, nzcv;
};
// Known to the assembly.
static struct hold {
    volatile uint64_t go, ready;
    uint64_t fd, byte;
    int64_t result;
    struct control control, control_found;
    uint64_t wide;
    uint64_t x[32], x_found[32];
    uint8_t *z, *z_found, *p, *p_found;
    _Alignas(16) uint8_t vectors[2][VECTORS], predicates[2][PREDICATES];
} held;
#define AT(field, offset) _Static_assert(offsetof(struct hold, field) == (offset), "as the assembly has it")
AT(fd, 16);
AT(result, 32);
AT(control, 40);
AT(control_found, 64);
AT(wide, 88);
AT(x, 96);
AT(x_found, 352);
AT(z, 608);
AT(p_found, 632);

void hold_spin(struct hold *h);
void hold_read(struct hold *h);

// x28 is the struct throughout, x8 a register of no value.
__asm__(".text\n"
        ".arch armv8.2-a+sve\n"
        ".macro each_x instruction, at\n"
        ".irp n,0,1,2,3,4,5,6,7,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,29,30\n\t"
        "\\instruction x\\n, [x28, #\\at + 8 * \\n]\n\t"
        ".endr\n"
        ".endm\n"
        ".macro each_vector narrow, wide, z, p\n\t"
        "ldr x8, [x28, #88]\n\t"
        "ldr x9, [x28, #\\z]\n\t"
        "cbz x8, 1f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
        "\\wide z\\n, [x9, #\\n, mul vl]\n"
        ".endr\n\t"
        "ldr x9, [x28, #\\p]\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "\\wide p\\n, [x9, #\\n, mul vl]\n"
        ".endr\n\t"
        "b 2f\n"
        "1:\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
        "\\narrow q\\n, [x9, #16 * \\n]\n"
        ".endr\n"
        "2:\n"
        ".endm\n"
        ".macro hold_begin\n\t"
        "stp x29, x30, [sp, #-176]!\n\t"
        "stp x19, x20, [sp, #16]\n\t"
        "stp x21, x22, [sp, #32]\n\t"
        "stp x23, x24, [sp, #48]\n\t"
        "stp x25, x26, [sp, #64]\n\t"
        "stp x27, x28, [sp, #80]\n\t"
        "stp d8, d9, [sp, #96]\n\t"
        "stp d10, d11, [sp, #112]\n\t"
        "stp d12, d13, [sp, #128]\n\t"
        "stp d14, d15, [sp, #144]\n\t"
        "mrs x9, fpcr\n\t"
        "str x9, [sp, #160]\n\t"
        "mov x28, x0\n\t"
        "each_vector ldr, ldr, 608, 624\n\t"
        "cbz x8, 3f\n\t"
        "setffr\n"
        "3:\tldr x9, [x28, #40]\n\t"
        "msr fpcr, x9\n\t"
        "ldr x9, [x28, #48]\n\t"
        "msr fpsr, x9\n\t"
        "ldr x9, [x28, #56]\n\t"
        "msr nzcv, x9\n\t"
        "each_x ldr, 96\n\t"
        "mov x8, #1\n\t"
        "str x8, [x28, #8]\n\t"
        ".endm\n"
        ".macro hold_end\n\t"
        "each_x str, 352\n\t"
        "mrs x9, fpcr\n\t"
        "str x9, [x28, #64]\n\t"
        "mrs x9, fpsr\n\t"
        "str x9, [x28, #72]\n\t"
        "mrs x9, nzcv\n\t"
        "str x9, [x28, #80]\n\t"
        "each_vector str, str, 616, 632\n\t"
        "cbz x8, 3f\n\t"
        "rdffr p0.b\n\t"
        "str p0, [x9, #16, mul vl]\n"
        "3:\tldr x9, [sp, #160]\n\t"
        "msr fpcr, x9\n\t"
        "ldp d8, d9, [sp, #96]\n\t"
        "ldp d10, d11, [sp, #112]\n\t"
        "ldp d12, d13, [sp, #128]\n\t"
        "ldp d14, d15, [sp, #144]\n\t"
        "ldp x19, x20, [sp, #16]\n\t"
        "ldp x21, x22, [sp, #32]\n\t"
        "ldp x23, x24, [sp, #48]\n\t"
        "ldp x25, x26, [sp, #64]\n\t"
        "ldp x27, x28, [sp, #80]\n\t"
        "ldp x29, x30, [sp], #176\n\t"
        "ret\n\t"
        ".endm\n"
        ".globl hold_spin\n"
        ".type hold_spin, %function\n"
        "hold_spin:\n\t"
        "hold_begin\n"
        "4:\tldr x8, [x28]\n\t"
        "cbz x8, 4b\n\t"
        "hold_end\n\t"
        ".size hold_spin, .-hold_spin\n"
        ".globl hold_read\n"
        ".type hold_read, %function\n"
        "hold_read:\n\t"
        "hold_begin\n\t"
        "ldr x0, [x28, #16]\n\t"
        "add x1, x28, #24\n\t"
        "mov x2, #1\n\t"
        "mov x8, #63\n\t" // read
        "svc #0\n\t"
        "str x0, [x28, #32]\n\t"
        "hold_end\n\t"
        ".size hold_read, .-hold_read\n");

static void fill(void *at, size_t bytes, uint64_t *state)
{
    uint8_t *out = at;
    for (size_t i = 0; i < bytes; i++) {
        *state += 0x9e3779b97f4a7c15;
        out[i] = (uint8_t)((*state ^ *state >> 30) * 0xbf58476d1ce4e5b9 >> 56);
    }
}

static void prepare(struct hold *h, int reads)
{
    uint64_t seed = (uint64_t)getpid();
    int length = prctl(GET_VECTOR_LENGTH);
    h->wide = (getauxval(AT_HWCAP) & HAS_SVE) && !reads ? (uint64_t)(length & LENGTH) : 0;
    h->z = h->vectors[0], h->z_found = h->vectors[1];
    h->p = h->predicates[0], h->p_found = h->predicates[1];
    fill(h->x, sizeof h->x, &seed);
    fill(h->vectors[0], VECTORS, &seed);
    fill(h->predicates[0], PREDICATES, &seed);
    if (h->wide)
        memset(h->p + 2 * h->wide, 0xff, h->wide / 8); // FFR, behind sixteen predicates
    h->control = (struct control){.fpcr = 0x01c00000, .fpsr = 0x0800009f, .nzcv = 0x60000000};
}

static const char *difference(const struct hold *h, int reads)
{
    size_t vector = h->wide ? h->wide : 16;
    for (int i = reads ? 3 : 0; i < 31; i++)
        if (i != 8 && i != 28 && h->x[i] != h->x_found[i])
            return i == 7 ? "x7" : "a general register";
    if (memcmp(&h->control, &h->control_found, sizeof h->control) != 0)
        return "FPCR, FPSR or the flags";
    if (memcmp(h->z, h->z_found, 32 * vector) != 0)
        return h->wide ? "Z0-Z31" : "V0-V31";
    return h->wide && memcmp(h->p, h->p_found, 17 * (vector / 8)) != 0 ? "P0-P15 or FFR" : NULL;
}

static void on_term(int signal)
{
    (void)signal;
    held.go = 1;
}

int main(int argc, char **argv)
{
    int reads = argc > 1 && strcmp(argv[1], "reads") == 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, on_term);
    free(malloc(100));
    prepare(&held, reads);
    printf("holds %s%llu bytes; errno, general registers\nready\n", held.wide ? "SVE vectors of " : "V registers of ",
           held.wide ? (unsigned long long)held.wide : 16);
    fflush(stdout);
    void *tls = __builtin_thread_pointer();
    errno = MINE;
    if (reads)
        hold_read(&held);
    else
        hold_spin(&held);
    int number = errno;
    const char *changed = number != MINE                                          ? "errno"
                          : __builtin_thread_pointer() != tls                     ? "the thread pointer"
                          : reads && (held.result != 1 || (char)held.byte != '.') ? "the result of read"
                                                                                  : difference(&held, reads);
    if (changed)
        printf("changed: %s (errno %d, read %lld)\n", changed, number, (long long)held.result);
    return changed != NULL;
}

#else
typedef int nothing_here;
#endif
