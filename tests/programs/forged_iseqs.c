// SPDX-License-Identifier: MIT
// Says that it is Ruby 3.1 (-DHIDDEN: 3.4; -DRELEASE=9: 3.9), whose control frames are right at first, and then wrong: each pointer and size of
// them in turn is set to each of several bad values, and memory is allocated. -DBUILT=COUNT (or another offset): one of its functions reads
// elsewhere, as that of a Ruby that was built differently. None of them may be called: each ends the program.
//
//   forged_iseqs    prints "PID GOOD ALL": how many blocks of SIZE were allocated with right frames, and altogether; and waits
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 9001, GOOD = 5, PAGE = 4096 };
enum { STACK_SIZE = 8, CURRENT = 16, TAG = 24, THREAD = 48 }; // of the execution context
enum { LABEL = 24, BEFORE = 56 };                             // of a tag
enum { PC = 0, ISEQ = 16, ENVIRONMENT = 32 };                 // of a control frame
enum { BODY = 16, WORDS = 4, CODE = 8, PATH = 64, NAME = 80, FIRST = 88 };
enum { LOCKS = sizeof(pthread_mutex_t) }; // of x86-64: 40 bytes each
#ifdef HIDDEN
enum { MAIN = 40, OBJSPACE = 1296 + 3 * (LOCKS - 40) }; // of the VM
enum { FLAGS = 20, COUNT = 1008 };                      // of the objspace
enum { BLOCKING = 248 };
enum { MINOR = 4, VM = 32, CONTEXT = 48, NATIVE = 40, ID = 16, FRAME = 56, TEXT = 24 };
enum { LINES = 112, LINE_COUNT = 128, POSITIONS = 136, FIRST_SHIFT = 0 };
#define OWN static
#else
enum { MAIN = 40, OBJSPACE = 1104 + 3 * (LOCKS - 40) };
enum { FLAGS = 16, COUNT = 440 };
enum { BLOCKING = 168 };
enum { MINOR = 1, VM = 32, CONTEXT = 40, NATIVE = 0, ID = 80, FRAME = 64, TEXT = 16 };
enum { LINES = 120, LINE_COUNT = 136, POSITIONS = 144, FIRST_SHIFT = 1 };
#define OWN
#endif
#ifndef RELEASE
#define RELEASE MINOR
#endif
enum { STRING = 5, LENGTH_SHIFT = 14, IMEMO_ISEQ = 0x701a, METHOD = 0x11110021, DUMMY = 0x799900a1 };
enum { STACK_WORDS = 64 };

const int ruby_api_version[3] = {3, RELEASE, 0};
OWN char *volatile ruby_current_vm_ptr;
OWN __thread char *volatile ruby_current_ec;

static char vm[2048], objspace[2048], thread[512], native[64], context[256], iseq[40], body[256], name[40], path[40],
    outer_name[40], outer_iseq[40], outer_body[256];
static uint64_t stack[STACK_WORDS], environments[4], code[16];
static uint32_t lines[6];
static uint64_t positions[2];
static unsigned long blocks;

// What Ruby's own functions read, which is not called. With BUILT, one of them reads elsewhere.
#ifndef BUILT
#define BUILT -1
#endif
#define PLACE(place) ((int)(place) == (int)(BUILT) ? (place) + 8 : (place))

static char *volatile called; // NULL

static void *word_at(char *object, size_t at)
{
    void *found;
    memcpy(&found, object + at, sizeof found);
    return found;
}

int rb_during_gc(void)
{
    return *(char *)word_at(called, PLACE(OBJSPACE));
}

void *rb_gc_count(void)
{
    return word_at(called, PLACE(COUNT));
}

void *ruby_thread_has_gvl_p(void)
{
    return word_at(called, PLACE(BLOCKING));
}

#ifdef HIDDEN
void *rb_iseq_label(char *its_iseq)
{
    return word_at(word_at(its_iseq + (size_t)called, BODY), PLACE(NAME));
}

void *rb_iseq_path(char *its_iseq)
{
    return word_at(word_at(its_iseq + (size_t)called, BODY), PLACE(PATH));
}

int rb_iseq_first_lineno(char *its_iseq)
{
    return *(int *)((char *)word_at(its_iseq + (size_t)called, BODY) + PLACE(FIRST));
}
#endif

static void put(void *object, size_t at, const void *value)
{
    memcpy((char *)object + at, &value, sizeof value);
}

static void put_text(char *object, const char *text)
{
    size_t length = strlen(text), in_flags = TEXT == 16 ? length << LENGTH_SHIFT : 0;
    put(object, 16, (void *)(uintptr_t)length);
    put(object, 0, (void *)(uintptr_t)(STRING | in_flags));
    strcpy(object + TEXT, text);
}

static void put_iseq(char *object, char *its_body, char *its_name)
{
    put(object, 0, (void *)IMEMO_ISEQ);
    put(object, BODY, its_body);
    its_body[WORDS] = sizeof code / sizeof *code;
    put(its_body, CODE, code);
    put(its_body, PATH, path);
    put(its_body, NAME, its_name);
    put(its_body, FIRST, (void *)(uintptr_t)(7 << FIRST_SHIFT | FIRST_SHIFT));
    put(its_body, LINES, lines);
    its_body[LINE_COUNT] = 2;
    put(its_body, POSITIONS, positions);
}

static void __attribute__((noinline)) allocate(int count)
{
    static size_t collections;
    for (int i = 0; i < count; i++, blocks++) {
        collections++; // nothing is remembered
        memcpy(objspace + COUNT, &collections, sizeof collections);
        if (!malloc(SIZE))
            abort();
    }
}

static char *gone(void)
{
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 0, 3 * PAGE);
    mprotect(pages, PAGE, PROT_NONE);
    munmap(pages + 2 * PAGE, PAGE);
    return pages;
}

// The program's own bytecode loop: what is right is in its stack frame.
OWN void __attribute__((noinline)) rb_vm_exec(void)
{
    char tags[3][64] = {"", "", ""}, *first = tags[0], *second = tags[1], *third = tags[2];
    char *pages = gone(), *frames = (char *)(stack + STACK_WORDS) - 3 * FRAME;
    void *here = (char *)rb_vm_exec + 8;
    ruby_current_vm_ptr = vm;
    ruby_current_ec = context;
    put(vm, MAIN, thread);
    put(vm, OBJSPACE, objspace);
    put(thread, VM, vm);
    put(thread, CONTEXT, context);
    put(TEXT == 16 ? thread : native, ID, __builtin_thread_pointer());
    if (TEXT != 16)
        put(thread, NATIVE, native);
    put(context, 0, stack);
    put(context, STACK_SIZE, (void *)STACK_WORDS);
    put(context, CURRENT, frames);
    put(context, THREAD, thread);
    put(context, TAG, first);
    put(first, LABEL, put); // somebody else's
    put(first, BEFORE, second);
    put(second, LABEL, here);
    put(second, BEFORE, third);
    put(third, LABEL, put);
    put_text(name, "right");
    put_text(outer_name, "outer");
    put_text(path, "f.rb");
    put_iseq(iseq, body, name);
    put_iseq(outer_iseq, outer_body, outer_name);
    code[0] = (uintptr_t)allocate + 1; // it seems to be the bytecode loop
    lines[0] = 8;
    lines[3] = 9;
    for (size_t word = 0; word < sizeof code / sizeof *code; word++) // the fourth one is on line 9
        positions[word / 9] |= (word < 3 ? UINT64_C(1) : UINT64_C(2)) << word % 9 * 7;
    environments[0] = METHOD & ~0x20;
    environments[1] = METHOD;
    environments[2] = DUMMY;
    char *its[] = {iseq, outer_iseq, NULL};
    for (int i = 0; i < 3; i++) {
        put(frames + i * FRAME, PC, code + 4);
        put(frames + i * FRAME, ISEQ, its[i]);
        put(frames + i * FRAME, ENVIRONMENT, environments + i);
    }
    allocate(GOOD);
    lines[5] = 1; // one more line than the code has: the table is none of it
    body[LINE_COUNT] = 3;
    put_text(name, "wrong");
    allocate(1);
    body[LINE_COUNT] = 2;
    objspace[FLAGS] = 1 << 5; // a collection is under way
    allocate(1);
    objspace[FLAGS] = 0;
    put(thread, BLOCKING, vm); // the thread does not have the lock
    allocate(1);
    put(thread, BLOCKING, NULL);
    put_text(name, "right");
    struct {
        void *object;
        size_t at;
    } words[] = {{context, 0},
                 {context, STACK_SIZE},
                 {context, CURRENT},
                 {context, TAG},
                 {context, THREAD},
                 {thread, VM},
                 {thread, CONTEXT},
                 {TEXT == 16 ? thread : native, ID},
#ifdef HIDDEN
                 {thread, NATIVE},
#endif
                 {(void *)&ruby_current_vm_ptr, 0},
                 {vm, OBJSPACE},
                 {thread, BLOCKING},
                 {objspace, FLAGS - FLAGS % 8},
                 {first, LABEL},
                 {first, BEFORE},
                 {second, LABEL},
                 {second, BEFORE},
                 {frames, PC},
                 {frames, ISEQ},
                 {frames, ENVIRONMENT},
                 {iseq, 0},
                 {iseq, BODY},
                 {body, 0},
                 {body, CODE},
                 {body, PATH},
                 {body, NAME},
                 {body, LINES},
                 {body, LINE_COUNT},
                 {body, POSITIONS},
                 {name, 0},
                 {path, 0},
                 {environments, 0},
                 {environments, 8},
                 {environments, 16},
                 {(void *)&ruby_current_ec, 0},
                 {vm, MAIN},
                 {frames + FRAME, ISEQ},
                 {frames + FRAME, PC},
                 {frames + FRAME, ENVIRONMENT}};
    const void *values[] = {(void *)1, (void *)8, (void *)0x7ffffffffff8, (void *)INT64_MIN,    (void *)-8L, NULL,
                            pages,     pages + 8, pages + 2 * PAGE,       pages + 2 * PAGE - 8, iseq,        first,
                            lines};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            const void *right;
            memcpy(&right, (char *)words[i].object + words[i].at, sizeof right);
            if (values[j] == right)
                continue;
            put(words[i].object, words[i].at, values[j]);
            allocate(1);
            put(words[i].object, words[i].at, right);
        }
}

int main(void)
{
    rb_vm_exec();
    ruby_current_ec = NULL;
    printf("%d %d %lu\n", (int)getpid(), GOOD, blocks);
    fflush(stdout);
    pause();
    return 0;
}
