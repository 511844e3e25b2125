// SPDX-License-Identifier: MIT
// The instructions at the beginning of functions: what each is, and what is written to have them done elsewhere, which is run.
#include "inject/entry/instruction.h"
#include "support/check.h"

#include <string.h>
#include <sys/mman.h>

struct known {
    const char *code;
    uint8_t length;
    enum as_instruction_kind kind;
    bool movable;
};

static void check_one(const struct known *k, int line)
{
    struct as_instruction i;
    uint8_t code[15] = {0};
    memcpy(code, k->code, k->length);
    CHECK(as_instruction_read(code, sizeof code, &i) && i.length == k->length && i.kind == k->kind &&
              i.movable == k->movable,
          ": line %d: %u bytes, kind %d, movable %d", line, i.length, (int)i.kind, i.movable);
    // Nothing is read behind the end.
    for (size_t length = 0; length < k->length; length++)
        CHECK(!as_instruction_read(code, length, &i), ": line %d: of %zu bytes", line, length);
}

// `what` is a part of a name.
#define IS(text, size, what, can)                                                                                      \
    check_one(&(struct known){.code = (text), .length = (size), .kind = AS_INSTRUCTION_##what, .movable = (can)},      \
              __LINE__)

// As glibc 2.31 to 2.44 have them at the entries of malloc and its kin, by objdump.
static void test_entries_of_glibc(void)
{
    IS("\x48\x8b\x05\x09\x81\x14\x00", 7, PLAIN, true);              // mov 0x148109(%rip),%rax
    IS("\x41\x55", 2, PLAIN, true);                                  // push %r13
    IS("\x55", 1, PLAIN, true);                                      // push %rbp
    IS("\x48\x89\xf8", 3, PLAIN, true);                              // mov %rdi,%rax
    IS("\x48\x8b\x14\x24", 4, PLAIN, true);                          // mov (%rsp),%rdx
    IS("\x80\x3d\x61\x88\x14\x00\x00", 7, PLAIN, true);              // cmpb $0,0x148861(%rip)
    IS("\x48\x83\xec\x10", 4, PLAIN, true);                          // sub $0x10,%rsp
    IS("\x48\xf7\xe6", 3, PLAIN, true);                              // mul %rsi
    IS("\x48\xc1\xe9\x03", 4, PLAIN, true);                          // shr $3,%rcx
    IS("\x48\x85\xff", 3, PLAIN, true);                              // test %rdi,%rdi
    IS("\x48\x8d\x47\x17", 4, PLAIN, true);                          // lea 0x17(%rdi),%rax
    IS("\xb8\x16\x00\x00\x00", 5, PLAIN, true);                      // mov $0x16,%eax
    IS("\x78\x71", 2, BRANCH, true);                                 // js
    IS("\x0f\x84\x00\x01\x00\x00", 6, BRANCH, true);                 // je
    IS("\xe9\x77\xf6\xff\xff", 5, JUMP, true);                       // jmp
    IS("\xeb\x05", 2, JUMP, true);                                   // jmp
    IS("\x64\x48\x8b\x04\x25\x28\x00\x00\x00", 9, PLAIN, true);      // mov %fs:0x28,%rax
    IS("\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x80", 10, PLAIN, true); // movabs
}

// What is never moved, though its length is known.
static void test_what_stays(void)
{
    IS("\xe8\x00\x01\x00\x00", 5, CALL, false);
    IS("\xe2\xfe", 2, LOOP, false);
    IS("\xc3", 1, OTHER, false);
    IS("\xcc", 1, OTHER, false);
    IS("\xff\xe0", 2, OTHER, false);                                      // jmp *%rax
    IS("\xff\x25\x10\x00\x00\x00", 6, OTHER, false);                      // jmp *0x10(%rip)
    IS("\xff\x15\x10\x00\x00\x00", 6, OTHER, false);                      // call *0x10(%rip)
    IS("\x0f\x05", 2, OTHER, false);                                      // syscall
    IS("\x5b", 1, PLAIN, false);                                          // pop %rbx
    IS("\x48\x89\x07", 3, PLAIN, false);                                  // mov %rax,(%rdi)
    IS("\xf0\x0f\xb1\x17", 4, PLAIN, false);                              // lock cmpxchg %edx,(%rdi)
    IS("\xf3\x0f\x1e\xfa", 4, PLAIN, false);                              // endbr64
    IS("\x83\x05\x10\x00\x00\x00\x01", 7, PLAIN, false);                  // addl $1,0x10(%rip)
    IS("\x48\xc7\x05\x10\x00\x00\x00\x01\x00\x00\x00", 11, PLAIN, false); // movq $1,0x10(%rip)
    IS("\x66\x0f\x1f\x84\x00\x00\x00\x00\x00", 9, PLAIN, true);           // nopw
    IS("\x0f\x11\x04\x24", 4, PLAIN, false);                              // movups %xmm0,(%rsp)
    IS("\xf6\x43\x08\x01", 4, PLAIN, false);                              // testb $1,8(%rbx)
    IS("\x48\xf7\x43\x08\x01\x00\x00\x00", 8, PLAIN, false);              // testq $1,8(%rbx)
}

static void test_unknown(void)
{
    static const uint8_t strange[][16] = {
        {0xc5, 0xf8, 0x77},       // vzeroupper: VEX
        {0x62, 0xf1, 0x7c, 0x48}, // EVEX
        {0x67, 0x8b, 0x00},       // addresses of 32 bits
        {0x06},                   // push %es, of 32-bit code
        {0x66, 0xe9, 0, 0, 0, 0}, // which processors do not agree about
        {0x0f, 0xff},
    };
    struct as_instruction i;
    for (size_t k = 0; k < sizeof strange / sizeof strange[0]; k++)
        CHECK(!as_instruction_read(strange[k], 15, &i));
}

// --- Elsewhere --------------------------------------------------------------------------------------------------------

typedef uint64_t function(uint64_t);

struct place {
    uint8_t *code, *moved;
};

static size_t move(const struct place *p, size_t length, char why[128])
{
    return as_instructions_move(p->code, length, (uintptr_t)p->code, (uintptr_t)p->moved, p->moved, 48, why, 128);
}

static void test_what_is_moved_does_the_same(const struct place *p)
{
    // test %rdi,%rdi; js +6; mov 0x20(%rip),%rax; ret; (+13) lea 1(%rdi),%rax; ret; a number at +32
    static const uint8_t code[] = {0x48, 0x85, 0xff, 0x78, 0x08, 0x48, 0x8b, 0x05, 0x14,
                                   0,    0,    0,    0xc3, 0x48, 0x8d, 0x47, 0x01, 0xc3};
    char why[128] = "";
    uint64_t number = 0x1234567890abcdef;
    memcpy(p->code, code, sizeof code);
    memcpy(p->code + 32, &number, sizeof number);
    CHECK(move(p, 5, why) == 3 + 6 + 5); // the branch has become a long one
    CHECK(((function *)(uintptr_t)p->code)(1) == number && ((function *)(uintptr_t)p->moved)(1) == number);
    CHECK(((function *)(uintptr_t)p->moved)((uint64_t)-5) == (uint64_t)-4);
    CHECK(move(p, 12, why) == 3 + 6 + 7 + 5); // and what is relative leads to the same number
    memset(p->code, 0xcc, 12);                // the original is not there any more
    CHECK(((function *)(uintptr_t)p->moved)(1) == number);
    CHECK(((function *)(uintptr_t)p->moved)((uint64_t)-5) == (uint64_t)-4);
}

// A function that is a jump and no more needs no way back.
static void test_a_jump(const struct place *p)
{
    static const uint8_t code[] = {0xe9, 0x0b, 0, 0, 0};
    static const uint8_t there[] = {0x48, 0x8d, 0x47, 0x07, 0xc3}; // lea 7(%rdi),%rax; ret
    char why[128] = "";
    memcpy(p->code, code, sizeof code);
    memcpy(p->code + 16, there, sizeof there);
    CHECK(move(p, 5, why) == 5);
    CHECK(((function *)(uintptr_t)p->moved)(10) == 17);
}

static void test_what_is_refused(const struct place *p)
{
    static const struct {
        uint8_t code[8];
        const char *why;
    } cases[] = {
        {{0x55, 0xe8, 0, 0, 0, 0}, "+1 (e8 00 ...) is not one of those"},
        {{0x48, 0x85, 0xff, 0x78, 0xfb}, "+3 (78 fb ...) leads to where"}, // js to its own beginning
        {{0x90, 0xeb, 0x00, 0x90, 0x90}, "+1 (eb 00 ...) leads to where"},
        {{0xc5, 0xf8, 0x77, 0x90, 0x90}, "+0 (c5 f8 ...) is not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[128] = "";
        size_t length = i == 0 ? 6 : 5;
        memcpy(p->code, cases[i].code, sizeof cases[i].code);
        CHECK(move(p, length, why) == 0 && strstr(why, cases[i].why));
    }
    // Too far.
    uint8_t out[48];
    char why[128] = "";
    memcpy(p->code, "\x55\x48\x89\xe5\x90", 5);
    CHECK(as_instructions_move(p->code, 5, (uintptr_t)p->code, (uintptr_t)p->code + (UINT64_C(3) << 30), out, 48, why,
                               sizeof why) == 0);
    CHECK(strstr(why, "too far"));
    // No room.
    CHECK(as_instructions_move(p->code, 5, (uintptr_t)p->code, (uintptr_t)p->moved, out, 9, why, sizeof why) == 0);
}

int main(void)
{
    test_entries_of_glibc();
    test_what_stays();
    test_unknown();
#if defined(__x86_64__)
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    const struct place place = {.code = pages, .moved = pages + 4096};
    test_what_is_moved_does_the_same(&place);
    test_a_jump(&place);
    test_what_is_refused(&place);
#endif
    return 0;
}
