// SPDX-License-Identifier: MIT
// Ends in the way that its argument names, when it has lost 100 objects of 32 bytes, and holds 1,000 in a global map that is
// destroyed at its end: "exit", "return" (with 3), "_exit", "abort", "fork" (a child loses 50 more), "thread" (another thread runs
// on), "replace" (by "exit" of another instance), "closed" (all descriptors are).
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Lost {
    virtual ~Lost() = default;
    long words[2] = {};
};

[[gnu::noinline]] void lose(int count)
{
    for (int i = 0; i < count; i++) {
        auto *volatile lost = new Lost;
        (void)lost;
    }
}

// What earlier calls have left on the stack is not there any more.
[[gnu::noinline]] void scrub()
{
    char stack[64 << 10];
    std::memset(stack, 0, sizeof stack);
    asm volatile("" : : "r"(stack) : "memory"); // a reader of the zeros: else compilers leave out the call
}

void lose_more()
{
    if (fork() != 0) {
        wait(nullptr);
        return;
    }
    lose(50);
    scrub();
    std::exit(0);
}

} // namespace

std::map<int, std::unique_ptr<Lost>> held;

int main(int, char **argv)
{
    const char *way = argv[1];
    for (int i = 0; i < 1000; i++)
        held[i] = std::make_unique<Lost>();
    lose(100);
    scrub();
    if (std::strcmp(way, "_exit") == 0)
        _exit(0);
    if (std::strcmp(way, "abort") == 0)
        std::abort();
    if (std::strcmp(way, "fork") == 0)
        lose_more();
    if (std::strcmp(way, "thread") == 0)
        std::thread([] { pause(); }).detach();
    if (std::strcmp(way, "replace") == 0)
        execl(argv[0], argv[0], "exit", nullptr);
    if (std::strcmp(way, "closed") == 0)
        for (int descriptor = 3; descriptor < 100; descriptor++)
            close(descriptor);
    return std::strcmp(way, "return") == 0 ? 3 : 0;
}
