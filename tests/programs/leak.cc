// SPDX-License-Identifier: MIT
// A server that forgets its sessions: 95 MiB of them are lost, with a cache of 60 MiB that it maps by itself, and 30 MiB of buffers
// that it has freed beneath one that it still uses. Says "ready" and waits for the end of its input.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>

namespace {

constexpr std::size_t MIB = 1 << 20;
constexpr int SESSIONS = 200'000;

struct Session {
    explicit Session(int number) : id(number)
    {
        std::memset(buffer, number, sizeof buffer);
    }
    int id;
    char buffer[484];
};

Session *last; // the only one that it still knows

void *map_cache(std::size_t size)
{
    void *cache = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cache == MAP_FAILED)
        std::abort();
    return std::memset(cache, 1, size);
}

std::vector<char> *use_and_free_buffers(int count)
{
    std::vector<std::vector<char> *> buffers;
    for (int i = 0; i < count; i++)
        buffers.push_back(new std::vector<char>(64 << 10, 'x'));
    for (std::vector<char> *each : buffers)
        delete each;
    return new std::vector<char>(1 << 10, 'y');
}

} // namespace

int main()
{
    map_cache(60 * MIB);
    for (int i = 0; i < SESSIONS; i++)
        last = new Session(i);
    std::vector<char> *used = use_and_free_buffers(480);
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() == EOF ? (used->size() ? 0 : 1) : 0;
}
