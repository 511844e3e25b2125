// SPDX-License-Identifier: MIT
// Says that it is a CPython (-DRELEASE=0x030b: 3.11), whose frames are right at first, and then wrong: each pointer and size of them
// in turn is set to each of several bad values, and memory is allocated.
//
//   forged_frames    prints "PID GOOD ALL": how many blocks of SIZE were allocated with right frames, and altogether; and waits
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 9001, GOOD = 5, PAGE = 4096 };
#if RELEASE == 0x030b
enum {
    THREAD = 152,
    CURRENT = 8,
    BEFORE = 16,
    CODE = 32,
    PREVIOUS = 48,
    ENTRY = 68,
    FIRST = 72,
    BYTECODE = 184,
    TEXT = 48
};
#else
enum {
    THREAD = 136,
    CURRENT = 0,
    BEFORE = 8,
    CODE = 0,
    PREVIOUS = 8,
    ENTRY = 0,
    FIRST = 68,
    BYTECODE = 192,
    TEXT = 40
};
#endif
enum {
    TYPE = 8,
    LENGTH = 16,
    STATE = 32,
    CFRAME = 56,
    INSTRUCTION = 56,
    FILE_NAME = 112,
    NAME = 128,
    LINES = 136,
    ROOT = 300,
    INITIALIZED = 16, // of _PyRuntime
    KEY = 1000
};
enum { ASCII = 1 << 2 | 1 << 5 | 1 << 6 }; // of characters of one byte, behind the object

unsigned long Py_Version = (unsigned long)RELEASE << 16 | 0xf0;
char PyCode_Type[512], PyUnicode_Type[512], PyBytes_Type[512];
_Alignas(8) char _PyRuntime[4096];

static char state[1024], code[256], name[64], file[64], lines[64], outer[128], inner[128];
static unsigned long blocks;

static void put(char *object, size_t at, const void *value)
{
    memcpy(object + at, &value, sizeof value);
}

static void put_text(char *object, const char *text)
{
    put(object, TYPE, PyUnicode_Type);
    put(object, LENGTH, (void *)strlen(text));
    put(object, STATE, (void *)ASCII);
    strcpy(object + TEXT, text);
}

static void put_frame(char *frame, const char *previous)
{
    put(frame, CODE, code);
    put(frame, PREVIOUS, previous);
    put(frame, INSTRUCTION, code + BYTECODE + 2);
}

// Initialised, and each thread's state is a value by the key there.
static void begin(void)
{
    const int is = 1;
    pthread_key_t key;
    if (pthread_key_create(&key, NULL) != 0 || pthread_setspecific(key, state) != 0)
        abort();
    memcpy(_PyRuntime + KEY, &is, sizeof is);
    memcpy(_PyRuntime + KEY + sizeof is, &key, sizeof key);
    memcpy(_PyRuntime + INITIALIZED, &is, sizeof is);
}

static void __attribute__((noinline)) allocate(int count)
{
    for (int i = 0; i < count; i++, blocks++)
        if (!malloc(SIZE))
            abort();
}

static char *gone(void)
{
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 0, 3 * PAGE);
    mprotect(pages, PAGE, PROT_NONE);
    munmap(pages + 2 * PAGE, PAGE);
    return pages;
}

static void __attribute__((noinline)) run(void)
{
    char cframe[32] = "", entry[128] = "";
    char *pages = gone();
    put(state, THREAD, __builtin_thread_pointer());
    put(state, CFRAME, cframe);
    put(cframe, BEFORE, state + ROOT / 8 * 8);
    put(cframe, CURRENT, inner);
    put(code, 0, (void *)1);
    put(code, TYPE, PyCode_Type);
    put(code, LENGTH, (void *)8);
    code[FIRST] = 7;
    put(code, FILE_NAME, file);
    put(code, NAME, name);
    put(code, LINES, lines);
    put_text(name, "right");
    put_text(file, "f.py");
    put(lines, TYPE, PyBytes_Type);
    put(lines, LENGTH, (void *)2);
    memcpy(lines + 32, "\xef", 2); // eight units: on the line where the function begins
    put_frame(inner, outer);
    put_frame(outer, ENTRY ? NULL : entry);
    outer[ENTRY ? ENTRY : 127] = 1;
    allocate(GOOD);
    struct {
        char *object;
        size_t at;
    } words[] = {{state, CFRAME},   {state, THREAD}, {cframe, CURRENT},   {cframe, BEFORE}, {inner, CODE},
                 {inner, PREVIOUS}, {outer, CODE},   {outer, PREVIOUS},   {code, TYPE},     {code, LENGTH},
                 {code, FILE_NAME}, {code, NAME},    {code, LINES},       {name, TYPE},     {name, LENGTH},
                 {lines, TYPE},     {lines, LENGTH}, {inner, INSTRUCTION}};
    const void *values[] = {(void *)1, (void *)8, (void *)0x7ffffffffff8, (void *)INT64_MIN,    (void *)-8L,
                            pages,     pages + 8, pages + 2 * PAGE,       pages + 2 * PAGE - 8, inner,
                            cframe,    lines};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            const void *right;
            memcpy(&right, words[i].object + words[i].at, sizeof right);
            if (values[j] == right)
                continue;
            put(words[i].object, words[i].at, values[j]);
            allocate(1);
            put(words[i].object, words[i].at, right);
        }
}

int main(void)
{
    begin();
    run();
    memset(state, 0, sizeof state);
    printf("%d %d %lu\n", (int)getpid(), GOOD, blocks);
    fflush(stdout);
    pause();
    return 0;
}
