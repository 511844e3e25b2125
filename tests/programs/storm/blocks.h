// SPDX-License-Identifier: MIT
// Threads that allocate, and that load libraries. See storm.cc.
#pragma once

#include "common.h"

namespace
{

// --- Blocks ----------------------------------------------------------------------------------------------------------

uint32_t next(uint32_t &seed)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

struct Block {
    uint8_t *bytes;
    size_t size;
    uint8_t value;

    void fill(uint8_t with)
    {
        value = with;
        memset(bytes, value, size);
    }
    void verify() const
    {
        check(bytes[0] == value && bytes[size / 2] == value && bytes[size - 1] == value, "a block has changed");
    }
};

void *allocate(uint32_t &seed, size_t size)
{
    void *memory = nullptr;
    switch (next(seed) % 8) {
    case 0:
        memory = calloc(1, size);
        check(memory && static_cast<char *>(memory)[size - 1] == 0, "calloc");
        break;
    case 1:
        check(posix_memalign(&memory, 64, size) == 0 && reinterpret_cast<uintptr_t>(memory) % 64 == 0,
              "posix_memalign");
        break;
    case 2:
        memory = memalign(256, size);
        check(reinterpret_cast<uintptr_t>(memory) % 256 == 0, "memalign");
        break;
    case 3:
        memory = aligned_alloc(32, (size + 31) / 32 * 32);
        break;
    case 4:
        memory = valloc(size);
        break;
    default:
        memory = malloc(size);
    }
    check(memory != nullptr, "no memory");
    return memory;
}

void resize(Block &block, uint32_t &seed)
{
    size_t size = 1 + next(seed) % 5000, kept = size < block.size ? size : block.size;
    block.bytes = static_cast<uint8_t *>(realloc(block.bytes, size));
    check(block.bytes && block.bytes[0] == block.value && block.bytes[kept - 1] == block.value, "realloc");
    block.size = size;
    block.fill(static_cast<uint8_t>(next(seed)));
}

void blocks()
{
    static std::atomic<uint32_t> seeds;
    static thread_local Block mine[64];
    static thread_local uint32_t seed = ++seeds * 77;
    for (int i = 0; i < 256; i++) {
        Block &block = mine[next(seed) % 64];
        if (!block.bytes) {
            block.size = 1 + next(seed) % (next(seed) % 50 == 0 ? 300000 : 700);
            block.bytes = static_cast<uint8_t *>(allocate(seed, block.size));
            block.fill(static_cast<uint8_t>(next(seed)));
            continue;
        }
        block.verify();
        if (next(seed) % 4 == 0)
            resize(block, seed);
        else
            free(std::exchange(block.bytes, nullptr));
    }
    sched_yield();
}

__attribute__((noinline)) int deep(int depth)
{
    char local[64];
    void *memory = malloc(static_cast<size_t>(depth) + 1);
    memset(memory, depth, static_cast<size_t>(depth) + 1);
    memset(local, depth, sizeof local);
    int frames = depth ? deep(depth - 1) : 0;
    free(memory);
    return frames + 1 + (local[5] - depth);
}

// Pointers that are copied, and asked for again now and then.
void pointers()
{
    auto allocates = reinterpret_cast<void *(*)(size_t)>(dlsym(RTLD_DEFAULT, "malloc"));
    auto resizes = reinterpret_cast<void *(*)(void *, size_t)>(dlsym(RTLD_DEFAULT, "realloc"));
    auto frees = reinterpret_cast<void (*)(void *)>(dlsym(RTLD_NEXT, "free"));
    for (int i = 0; i < 256; i++) {
        char *bytes = static_cast<char *>(allocates(50));
        bytes[49] = 3;
        bytes = static_cast<char *>(resizes(bytes, 500));
        check(bytes[49] == 3, "realloc by a pointer");
        frees(bytes);
    }
    sched_yield();
}

// What libc allocates, and what it does with the heap.
void libc()
{
    FILE *pipe = popen("echo hello", "r");
    char *line = nullptr, *text = nullptr;
    size_t size = 0;
    if (pipe) {
        check(getline(&line, &size, pipe) == 6 && strcmp(line, "hello\n") == 0, "popen");
        free(line);
        pclose(pipe);
    }
    check(asprintf(&text, "%d %s", 5, "xyz") == 5, "asprintf");
    free(strdup(text));
    free(text);
    malloc_trim(0);
    nap(3000);
}

// --- Libraries -------------------------------------------------------------------------------------------------------

void libraries()
{
    static std::atomic<int> which;
    static thread_local int mine = which++ % 2;
    void *library = dlopen(plugins[mine], RTLD_NOW | (mine ? RTLD_GLOBAL : 0));
    if (!library)
        wrong("%s", dlerror());
    auto allocates = reinterpret_cast<void *(*)(size_t)>(dlsym(library, "plugin_allocates"));
    auto throws = reinterpret_cast<int (*)(int)>(dlsym(library, "plugin_throws"));
    char *bytes = static_cast<char *>(allocates(200));
    try {
        throws(6);
        wrong("nothing was thrown");
    } catch (const std::string &text) {
        check(text.size() > 40, "another exception");
    }
    check(dlclose(library) == 0, "dlclose");
    check(bytes[199] == 0x5a, "what a library allocated has changed");
    free(bytes);
}

void objects()
{
    int count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *context) {
            free(strdup(info->dlpi_name ? info->dlpi_name : ""));
            ++*static_cast<int *>(context);
            return 0;
        },
        &count);
    check(count >= 3, "too few objects");
    nap(200);
}

// libc itself loads and unloads a library for each.
void characters()
{
    static const char *const sets[] = {"UTF-16", "ISO-8859-15", "EUC-JP", "KOI8-R", "CP1252", "BIG5", "UTF-7"};
    static thread_local unsigned turn;
    iconv_t converter = iconv_open(sets[turn++ % 7], "UTF-8");
    if (converter != reinterpret_cast<iconv_t>(-1))
        iconv_close(converter);
    nap(300);
}

} // namespace
