// SPDX-License-Identifier: MIT
// aarch64: has something in registers that no function may find there (SME): `streaming` mode with vectors of its own, or `za`. It is in
// code of its own until SIGTERM, and then says whether all is as it was. Exit code 77: the processor or the kernel has no SME.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#if defined(__aarch64__)
enum {
    CAPABILITIES_2 = 26,
    HAS_SME = 1 << 23, // HWCAP2_SME, which older headers lack
    MOST = 256,        // the longest vector that there can be
    NONE = 77,
};
static volatile uint64_t go;
static uint8_t before[MOST * MOST], after[MOST * MOST];
static uint64_t mode; // SVCR, just before the end

static void on_term(int signal)
{
    (void)signal;
    go = 1;
}

// The assembler need not know SME: instructions are given as numbers. In streaming mode nothing but this runs.
static void stream(void)
{
    __asm__ volatile(".arch armv8.2-a+sve\n\t"
                     ".inst 0xd503437f\n\t" // smstart sm
                     "ldr z0, [%[from]]\n\t"
                     "ldr z31, [%[from], #1, mul vl]\n"
                     "1:\tldr x9, [%[go]]\n\t"
                     "cbz x9, 1b\n\t"
                     "str z0, [%[to]]\n\t"
                     "str z31, [%[to], #1, mul vl]\n\t"
                     "mrs x9, s3_3_c4_c2_2\n\t"
                     "str x9, [%[mode]]\n\t"
                     ".inst 0xd503427f\n" // smstop sm
                     :
                     : [from] "r"(before), [to] "r"(after), [go] "r"(&go), [mode] "r"(&mode)
                     : "x9", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
                       "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31");
}

static void hold_za(void)
{
    register const uint8_t *from __asm__("x0") = before;
    register uint8_t *to __asm__("x1") = after;
    register uint64_t length __asm__("x2");
    __asm__ volatile(".inst 0x04bf5822\n\t" // rdsvl x2, #1
                     ".inst 0xd503457f\n\t" // smstart za
                     "mov x12, #0\n"
                     "1:\t.inst 0xe1000000\n\t" // ldr za[w12, 0], [x0]
                     "add x0, x0, x2\n\t"
                     "add x12, x12, #1\n\t"
                     "cmp x12, x2\n\t"
                     "b.ne 1b\n"
                     "2:\tldr x9, [%[go]]\n\t"
                     "cbz x9, 2b\n\t"
                     "mov x12, #0\n"
                     "3:\t.inst 0xe1200020\n\t" // str za[w12, 0], [x1]
                     "add x1, x1, x2\n\t"
                     "add x12, x12, #1\n\t"
                     "cmp x12, x2\n\t"
                     "b.ne 3b\n\t"
                     "mrs x9, s3_3_c4_c2_2\n\t"
                     "str x9, [%[mode]]\n\t"
                     ".inst 0xd503447f\n" // smstop za
                     : "+r"(from), "+r"(to), "=&r"(length)
                     : [go] "r"(&go), [mode] "r"(&mode)
                     : "x9", "x12", "cc", "memory");
}

int main(int argc, char **argv)
{
    int za = argc > 1 && strcmp(argv[1], "za") == 0;
    size_t length;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!(getauxval(CAPABILITIES_2) & HAS_SME)) {
        puts("no SME");
        return NONE;
    }
    __asm__(".inst 0x04bf5820\n\tmov %0, x0" : "=r"(length) : : "x0"); // rdsvl x0, #1
    for (size_t i = 0; i < sizeof before; i++)
        before[i] = (uint8_t)(i * 167 + i / 251 + 1);
    signal(SIGTERM, on_term);
    free(malloc(100));
    puts("ready");
    fflush(stdout);
    if (za)
        hold_za();
    else
        stream();
    size_t held = za ? length * length : 2 * length;
    if (mode != (za ? 2U : 1U))
        printf("changed: the mode is %llu\n", (unsigned long long)mode);
    else if (memcmp(before, after, held) != 0)
        puts("changed: what the registers held");
    else
        return 0;
    return 1;
}
#else
int main(void)
{
    puts("no SME");
    return 77;
}
#endif
