// SPDX-License-Identifier: MIT
// Knows what keeps its pages: objects of two classes, held by two variables, one for each block of almost a page, and the
// blocks are freed. Every tenth block has one object of each class beside it. Prints lines "CLASS ADDRESS", then "ready". Each byte of
// its input changes what it holds. Addresses are kept inverted, as this program's own memory is searched as well.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// With external linkage: what nobody could read, compilers leave out.
struct Connection {
    virtual ~Connection() = default;
    long state[4] = {};
};
struct Session {
    virtual ~Session() = default;
    long state[3] = {};
    Session *below = nullptr;
};
struct Forgotten {
    virtual ~Forgotten() = default;
    long state[4] = {};
};

namespace
{

constexpr int BLOCKS = 2000;
std::uintptr_t blocks[BLOCKS];
int known_count;
struct {
    const char *name;
    std::uintptr_t inverted;
} known[4 * BLOCKS];

template <typename T> T *know(const char *name, T *object)
{
    known[known_count++] = {name, ~reinterpret_cast<std::uintptr_t>(object)};
    return object;
}

[[gnu::noinline]] void scrub()
{
    char stack[64 << 10];
    std::memset(stack, 0, sizeof stack);
    asm volatile("" : : "r"(stack) : "memory"); // a reader of the zeros: else compilers leave out the call
}

} // namespace

Connection *open_connections[2 * BLOCKS];
Session *open_sessions[BLOCKS];

namespace
{

[[gnu::noinline]] void hold()
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = ~reinterpret_cast<std::uintptr_t>(std::malloc(4000));
        if (i % 10 == 0 || i % 3 != 0)
            open_connections[i] = know("Connection", new Connection);
        if (i % 10 == 0 || i % 3 == 0)
            open_sessions[i] = know("Session", new Session);
        if (i % 20 == 0)
            open_connections[BLOCKS + i] = know("Connection", new Connection);
        if (i % 30 == 3)
            open_sessions[i]->below = know("Session", new Session);
        if (i % 50 == 0)
            know("Forgotten", new Forgotten);
    }
    for (int i = 0; i < BLOCKS; i++)
        std::free(reinterpret_cast<void *>(~blocks[i]));
}

// 100 connections less, and 20 objects more that are lost.
[[gnu::noinline]] void change()
{
    for (int i = 0, deleted = 0; i < BLOCKS && deleted < 100; i++) {
        deleted += open_connections[i] != nullptr;
        delete open_connections[i];
        open_connections[i] = nullptr;
    }
    for (int i = 0; i < 20; i++)
        know("Forgotten", new Forgotten);
    scrub();
    std::puts("changed");
}

} // namespace

int main()
{
    setvbuf(stdout, nullptr, _IONBF, 0);
    hold();
    scrub();
    for (int i = 0; i < known_count; i++)
        std::printf("%s\t%#lx\n", known[i].name, static_cast<unsigned long>(~known[i].inverted));
    std::puts("ready");
    while (std::getchar() != EOF)
        change();
}
