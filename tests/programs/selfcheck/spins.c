// SPDX-License-Identifier: MIT
// Threads that run without a system call, with values where only they can know them: in vector registers, in the general
// ones, and below the stack pointer (x86-64's red zone).
#include "selfcheck.h"

#if defined(__x86_64__)
static void *spins(void *argument)
{
    const uint64_t pattern[2] = {0x0123456789abcdef ^ (uintptr_t)argument, 0xfedcba9876543210};
    while (!stopping) {
        uint64_t low = 0;
        uint64_t zone = 0;
        uint64_t rest = 0;
        __asm__ volatile("movdqu %[pattern], %%xmm15\n\t"
                         "movdqu %[pattern], %%xmm3\n\t"
                         "movq %[seed], %%r11\n\t"
                         "movq %[seed], %%r12\n\t"
                         "movq %[seed], -128(%%rsp)\n\t"
                         "movq %[seed], -8(%%rsp)\n\t"
                         "movl $200000, %%ecx\n"
                         "1:\tdecl %%ecx\n\t"
                         "jnz 1b\n\t"
                         "movq -128(%%rsp), %[zone]\n\t"
                         "xorq -8(%%rsp), %[zone]\n\t"
                         "pxor %%xmm15, %%xmm3\n\t"
                         "movq %%xmm3, %[low]\n\t"
                         "movq %%r11, %[rest]\n\t"
                         "xorq %%r12, %[rest]\n\t"
                         : [low] "=&r"(low), [zone] "=&r"(zone), [rest] "=&r"(rest)
                         : [pattern] "m"(pattern), [seed] "r"(pattern[0])
                         : "xmm15", "xmm3", "rcx", "r11", "r12", "memory", "cc");
        if (low != 0 || zone != 0 || rest != 0)
            harmed("a register or the red zone changed");
        checked();
    }
    return NULL;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

enum { HAS_SVE = 1 << 22 }; // HWCAP_SVE, which older headers lack

// All of the Z and P registers, which a system call would clear beyond the first 128 bits of each Z. Returns 0 if they held.
static uint64_t spin_wide(uint64_t seed)
{
    uint64_t lost;
    __asm__ volatile(".arch_extension sve\n\t"
                     "ptrue p0.b\n\t"
                     "ptrue p7.d\n\t"
                     "dup z8.d, %[seed]\n\t"
                     "dup z31.d, %[seed]\n\t"
                     "mov x9, #0xffff\n"
                     "1:\tsubs x9, x9, #1\n\t"
                     "b.ne 1b\n\t"
                     "dup z20.d, %[seed]\n\t"
                     "ptrue p0.b\n\t"
                     "ptrue p1.d\n\t"
                     "cmpne p2.d, p0/z, z8.d, z20.d\n\t"
                     "cmpne p3.d, p0/z, z31.d, z20.d\n\t"
                     "orr p2.b, p0/z, p2.b, p3.b\n\t"
                     "eor p3.b, p0/z, p1.b, p7.b\n\t"
                     "orr p2.b, p0/z, p2.b, p3.b\n\t"
                     "cntp %[lost], p0, p2.b\n\t"
                     : [lost] "=&r"(lost)
                     : [seed] "r"(seed)
                     : "v8", "v20", "v31", "x9", "cc");
    return lost;
}

static uint64_t spin(uint64_t seed)
{
    uint64_t difference;
    __asm__ volatile("fmov d8, %[seed]\n\t"
                     "fmov d20, %[seed]\n\t"
                     "mov x7, %[seed]\n\t" // which the kernel changes while it stops a thread at a system call
                     "mov x17, %[seed]\n\t"
                     "mov x9, #0xffff\n"
                     "1:\tsubs x9, x9, #1\n\t"
                     "b.ne 1b\n\t"
                     "fmov x9, d8\n\t"
                     "fmov x10, d20\n\t"
                     "eor %[difference], x9, x10\n\t"
                     "eor x9, x7, x17\n\t"
                     "orr %[difference], %[difference], x9\n\t"
                     "eor x9, x7, x10\n\t"
                     "orr %[difference], %[difference], x9\n\t"
                     : [difference] "=&r"(difference)
                     : [seed] "r"(seed)
                     : "d8", "d20", "x7", "x9", "x10", "x17", "cc");
    return difference;
}

static void *spins(void *argument)
{
    const uint64_t seed = 0x0123456789abcdef ^ (uintptr_t)argument;
    bool wide = getauxval(AT_HWCAP) & HAS_SVE;
    while (!stopping) {
        if (spin(seed) != 0)
            harmed("a register changed");
        if (wide && spin_wide(seed) != 0)
            harmed("a register of SVE changed");
        checked();
    }
    return NULL;
}
#else
#error "registers of another architecture"
#endif

void spins_start(void)
{
    start(spins, (void *)1, 0);
    start(spins, (void *)2, 0);
}
