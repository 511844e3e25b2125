// SPDX-License-Identifier: MIT
// A string that was longer once: behind its text, where it has room still, lies the only address of a block. Says "ready" and waits for
// the end of its input.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

std::string *held;

int main()
{
    held = new std::string(100, 'x');
    held->assign(60, 'y');
    void *block = std::malloc(700);
    std::memset(block, 1, 700);
    std::memcpy(&(*held)[0] + 72, &block, sizeof block);
    block = nullptr;
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
    return held->size() == 60 ? 0 : 1;
}
