// SPDX-License-Identifier: MIT
// A library that allocates and throws, with variables that have constructors and destructors. ROOM tells two of them apart. See storm.cc.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" void *plugin_allocates(size_t size);
extern "C" int plugin_throws(int depth);

void *plugin_allocates(size_t size)
{
    std::vector<std::string> texts;
    for (int i = 0; i < 3; i++)
        texts.emplace_back(size / 3 + ROOM, 'x');
    void *memory = malloc(size + ROOM);
    memset(memory, 0x5a, size);
    return memory;
}

int plugin_throws(int depth)
{
    void *memory = malloc(40 + ROOM);
    if (depth == 0) {
        free(memory);
        throw std::string("an exception with a text that is long enough for the heap to have it");
    }
    try {
        int result = plugin_throws(depth - 1);
        free(memory);
        return result;
    } catch (...) {
        free(memory);
        throw;
    }
}

namespace
{

struct Keep {
    void *memory = malloc(123);
    ~Keep()
    {
        free(memory);
    }
};

Keep keep;

} // namespace
