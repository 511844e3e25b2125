// SPDX-License-Identifier: MIT
// A string that was longer once: behind its text, where it has room still, lies the only address of a block. A vector with room for one
// pointer: in the two words behind it, which malloc has rounded up to, lie the only addresses of two more. Says "ready" and waits for the
// end of its input.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

std::string *held;
std::vector<long> *numbers;

static void forget_block_at(void *place)
{
    void *block = std::malloc(700);
    std::memset(block, 1, 700);
    std::memcpy(place, &block, sizeof block);
}

int main()
{
    held = new std::string(100, 'x');
    held->assign(60, 'y');
    forget_block_at(&(*held)[0] + 72);
    numbers = new std::vector<long>(1, 17);
    char *behind = reinterpret_cast<char *>(numbers->data() + 1);
    forget_block_at(behind);
    forget_block_at(behind + sizeof(long));
    std::puts("ready");
    std::fflush(stdout);
    std::getchar();
    return held->size() == 60 ? 0 : 1;
}
