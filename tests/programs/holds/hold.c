// SPDX-License-Identifier: MIT
#ifndef _GNU_SOURCE // test_frame is built with it
#define _GNU_SOURCE
#endif
#include "hold.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// rbx is the struct throughout. A state is saved, the pattern loaded; registers wait; they are saved, and the state is put back.
// Between the two no compiled code runs.
__asm__(".text\n"
        "hold_save:\n\t"
        "mov 24(%rbx), %eax\n\t"
        "mov 28(%rbx), %edx\n\t"
        "test %rax, %rax\n\t"
        "jz 1f\n\t"
        "xsave64 (%rcx)\n\t"
        "ret\n"
        "1:\tfxsave64 (%rcx)\n\t"
        "ret\n"
        "hold_load:\n\t"
        "mov 24(%rbx), %eax\n\t"
        "mov 28(%rbx), %edx\n\t"
        "test %rax, %rax\n\t"
        "jz 1f\n\t"
        "xrstor64 (%rcx)\n\t"
        "ret\n"
        "1:\tfxrstor64 (%rcx)\n\t"
        "ret\n"
        ".macro hold_begin\n\t"
        "push %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
        "mov %rdi, %rbx\n\t"
        "mov 0(%rbx), %rcx\n\t"
        "call hold_save\n\t"
        "mov 8(%rbx), %rcx\n\t"
        "call hold_load\n\t"
        "mov 48(%rbx), %r8\n\t"
        "mov 56(%rbx), %r9\n\t"
        "mov 64(%rbx), %r10\n\t"
        "mov 72(%rbx), %r12\n\t"
        "mov 80(%rbx), %r13\n\t"
        "mov 88(%rbx), %r14\n\t"
        "mov 96(%rbx), %r15\n\t"
        "mov 104(%rbx), %rbp\n\t"
        "mov 112(%rbx), %rax\n\t"
        "mov %rax, -128(%rsp)\n\t"
        "movq $1, 32(%rbx)\n\t"
        ".endm\n"
        ".macro hold_end\n\t"
        "mov -128(%rsp), %rax\n\t"
        "mov %rax, 184(%rbx)\n\t"
        "mov %r8, 120(%rbx)\n\t"
        "mov %r9, 128(%rbx)\n\t"
        "mov %r10, 136(%rbx)\n\t"
        "mov %r12, 144(%rbx)\n\t"
        "mov %r13, 152(%rbx)\n\t"
        "mov %r14, 160(%rbx)\n\t"
        "mov %r15, 168(%rbx)\n\t"
        "mov %rbp, 176(%rbx)\n\t"
        "mov 16(%rbx), %rcx\n\t"
        "call hold_save\n\t"
        "mov 0(%rbx), %rcx\n\t"
        "call hold_load\n\t"
        "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\t"
        "ret\n\t"
        ".endm\n"
        ".globl hold_spin\n"
        ".type hold_spin, @function\n"
        "hold_spin:\n\t"
        "hold_begin\n"
        "1:\tpause\n\t"
        "cmpq $0, 40(%rbx)\n\t"
        "je 1b\n\t"
        "hold_end\n\t"
        ".size hold_spin, .-hold_spin\n"
        ".globl hold_read\n"
        ".type hold_read, @function\n"
        "hold_read:\n\t"
        "hold_begin\n\t"
        "mov 192(%rbx), %rdi\n\t"
        "lea 200(%rbx), %rsi\n\t"
        "mov $1, %edx\n\t"
        "xor %eax, %eax\n\t"
        "syscall\n\t"
        "mov %rax, 208(%rbx)\n\t"
        "hold_end\n\t"
        ".size hold_read, .-hold_read\n");
#define AT(field, offset) _Static_assert(offsetof(struct hold, field) == (offset), "as the assembly has it")
AT(features, 24);
AT(ready, 32);
AT(go, 40);
AT(general, 48);
AT(found, 120);
AT(fd, 192);
AT(byte, 200);
AT(result, 208);

enum { LEAF = 0xd, LEGACY_FEATURES = 2, MOST_FEATURES = 63, XMM = 160, XMM_BYTES = 256, IN_USE = 512 };

static const struct {
    uint64_t bit;
    const char *name;
} features[] = {
    {HOLD_X87, "x87"},         {HOLD_SSE, "SSE"},        {HOLD_AVX, "AVX"},   {HOLD_OPMASK, "k0-k7"},
    {HOLD_ZMM, "ZMM0-15"},     {HOLD_ZMM16, "ZMM16-31"}, {HOLD_PKRU, "PKRU"}, {HOLD_TILECFG, "TILECFG"},
    {HOLD_TILEDATA, "TMM0-7"}, {HOLD_APX, "APX"},
};
enum { KNOWN = sizeof features / sizeof features[0] };

uint64_t hold_features(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    uint64_t known = 0;
    for (int i = 0; i < KNOWN; i++)
        known |= features[i].bit;
    return ((uint64_t)d << 32 | a) & known;
}

const char *hold_names(uint64_t which, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "%s", which ? "" : "x87 SSE (FXSAVE)");
    for (int i = 0; i < KNOWN; i++)
        if ((which & features[i].bit) && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? " " : "", features[i].name);
    return text;
}

int hold_ask_for_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILEDATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILEDATA) == 0 ? 0 : errno;
}

// The next 8 bytes of a pattern.
static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9;
    return z ^ z >> 31;
}

static void fill(uint8_t *at, size_t bytes, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i += sizeof *state) {
        uint64_t word = draw(state);
        memcpy(at + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
    }
}

static void place(unsigned feature, unsigned *offset, unsigned *size)
{
    unsigned bytes;
    unsigned from;
    unsigned none;
    __cpuid_count(LEAF, feature, bytes, from, none, none);
    *size = bytes;
    *offset = from;
}

// Registers of which not every value is a valid one.
static void fill_special(uint8_t *state, uint64_t which, uint64_t *seed)
{
    static const uint16_t x87[3] = {0x0c7f, 0x3800, 0x00ff}; // to zero, single precision; the top is at 7; all are full
    static const uint32_t mxcsr = 0x3fa1;                    // upward, with what has been inexact
    static const uint32_t pkru = 0xd5555554;                 // key 15 is for nobody, 0 for everybody
    unsigned offset;
    unsigned size;
    memcpy(state, x87, sizeof x87);
    memcpy(state + 24, &mxcsr, sizeof mxcsr);
    for (int i = 0; i < 8; i++)
        fill(state + 32 + (ptrdiff_t)16 * i, 10, seed);
    fill(state + XMM, XMM_BYTES, seed);
    if (which & HOLD_PKRU) {
        place(9, &offset, &size);
        memset(state + offset, 0, size);
        memcpy(state + offset, &pkru, sizeof pkru);
    }
    if (which & HOLD_TILECFG) {
        place(17, &offset, &size);
        uint8_t configuration[64] = {1}; // palette 1: eight tiles of 16 rows and 64 bytes
        for (int i = 0; i < 8; i++)
            configuration[16 + 2 * i] = 64, configuration[48 + i] = 16;
        memcpy(state + offset, configuration, sizeof configuration);
    }
}

void hold_prepare(struct hold *h, uint64_t which, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    h->before = h->states[0];
    h->pattern = h->states[1];
    h->after = h->states[2];
    h->features = which;
    for (int i = 0; i < HOLD_GENERAL; i++)
        h->general[i] = draw(&seed);
    for (unsigned i = LEGACY_FEATURES; i < MOST_FEATURES; i++) {
        unsigned offset;
        unsigned size;
        if (!(which >> i & 1))
            continue;
        place(i, &offset, &size);
        fill(h->pattern + offset, size, &seed);
    }
    fill_special(h->pattern, which, &seed);
    memcpy(h->pattern + IN_USE, &which, which ? sizeof which : 0);
}

static int same(const struct hold *h, size_t offset, size_t size)
{
    return memcmp(h->pattern + offset, h->after + offset, size) == 0;
}

const char *hold_difference(const struct hold *h)
{
    static char text[64];
    if (memcmp(h->general, h->found, sizeof h->general) != 0)
        return "a general register, or the red zone";
    if (!same(h, 0, 5))
        return "x87's control, status or tags";
    if (!same(h, 24, 4))
        return "MXCSR";
    for (int i = 0; i < 8; i++)
        if (!same(h, 32 + (size_t)16 * i, 10))
            return "x87's registers";
    if (!same(h, XMM, XMM_BYTES))
        return "XMM";
    for (unsigned i = LEGACY_FEATURES; i < MOST_FEATURES; i++) {
        unsigned offset;
        unsigned size;
        if (!(h->features >> i & 1))
            continue;
        place(i, &offset, &size);
        if (!same(h, offset, size))
            return hold_names(UINT64_C(1) << i, text, sizeof text);
    }
    return NULL;
}

#endif
