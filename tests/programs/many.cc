// SPDX-License-Identifier: MIT
// More owners than a dump has room for, once it is stripped (each word without a symbol is an owner), and more kinds of lost chunks.
// Prints "ready" and waits for the end of its input.
#include <cstdio>
#include <cstdlib>

#include <malloc.h>

constexpr int OWNERS = 15000, KINDS = 10100;
void *volatile held[OWNERS], *volatile lost;

namespace
{

[[gnu::noinline]] void lose()
{
    for (std::size_t i = 0; i < KINDS; i++) {
        lost = std::malloc(24 + 16 * i);
        lost = nullptr;
    }
}

} // namespace

int main()
{
    mallopt(M_MMAP_THRESHOLD, 1 << 24); // a mapping is whole pages: fewer sizes
    setvbuf(stdout, nullptr, _IONBF, 0);
    for (std::size_t i = 0; i < OWNERS; i++)
        held[i] = std::malloc(24 + 16 * (i % 1000));
    lose();
    std::puts("ready");
    while (std::getchar() != EOF) {
    }
}
