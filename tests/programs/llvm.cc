// SPDX-License-Identifier: MIT
// Holds containers of LLVM, and chunks that are nearly such containers. Prints lines "KIND ADDRESS" (0x...), of kind "decoy" for the
// latter, then "ready", and waits for the end of its input. An argument: how many
// rounds; the later ones are the larger.
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Support/Allocator.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace
{

constexpr unsigned many = 20;

void *keep(const char *kind, void *chunk)
{
    printf("%s\t%p\n", kind, chunk);
    return chunk;
}

// Tells of each slab; larger objects have slabs of their own, which are no others' neighbours.
class Telling : public llvm::AllocatorBase<Telling>
{
  public:
    static void *Allocate(size_t size, size_t)
    {
        return (size & (size - 1)) == 0 ? keep("slab", malloc(size)) : malloc(size);
    }
    static void Deallocate(const void *, size_t, size_t)
    {
    }
};
using Slabs = llvm::BumpPtrAllocatorImpl<Telling>;

template <class Map, class Key> void fill(unsigned count, Key key)
{
    auto *map = new Map;
    for (unsigned i = 0; i < count; i++)
        (*map)[key(i)] = {};
    for (unsigned i = 0; i < count; i += 7)
        map->erase(key(i));
    keep("DenseMap", const_cast<void *>(map->getPointerIntoBucketsArray()));
}

void make_maps(unsigned count)
{
    static std::array<char[16], 10000> objects;
    auto object = [](unsigned i) { return &objects[i]; };
    fill<llvm::DenseMap<void *, int>>(count, object);
    fill<llvm::DenseMap<void *, std::array<void *, 3>>>(count, object);
    fill<llvm::DenseMap<void *, std::array<void *, 6>>>(count, object);
    fill<llvm::DenseMap<unsigned, std::array<unsigned, 3>>>(count, [](unsigned i) { return i * 3; });
    fill<llvm::DenseMap<uint64_t, uint64_t>>(count, [](unsigned i) { return uint64_t(i) << 33; });
    auto *strings = new llvm::StringMap<uint64_t>;
    for (unsigned i = 0; i < count; i++)
        (*strings)[std::string(i % 90, 'a') + std::to_string(i)] = i;
    for (unsigned i = 0; i < count; i += 3)
        strings->erase(std::string(i % 90, 'a') + std::to_string(i));
    for (auto &entry : *strings)
        keep("StringMap entry", &entry);
}

// A pointer and the numbers behind it.
struct Header {
    void *first;
    uint32_t numbers[4];
};

void hold(const Header &header)
{
    memcpy(keep("decoy", malloc(sizeof header)), &header, sizeof header);
}

void make_decoys(unsigned i)
{
    auto *table = static_cast<uint64_t *>(keep("decoy", malloc(64 * 16)));
    for (unsigned k = 0; k < 128; k++)
        table[k] = k % 2 ? 17 : ~uint64_t{0} << 12;
    table[20] = 12345;
    hold({table, {i % 2, 1 - i % 2, 64, 0}}); // one is taken, and from none something was removed
    if (i % 2)
        table[22] = 54321; // two are taken
    auto **strings = static_cast<void **>(keep("decoy", calloc(17, 12)));
    strings[16] = reinterpret_cast<void *>(2);
    strings[3] = keep("decoy", calloc(1, 40));
    hold({strings, {16, i % 2 * 2, 0, 16}}); // not as many as there are
    auto **slabs = static_cast<void **>(keep("decoy", calloc(4, 8)));
    for (unsigned k = 0; k < 3; k++)
        slabs[k] = keep("decoy", malloc(k == i % 3 ? 2048 : 4096)); // one is smaller than the others
    auto *end = static_cast<char *>(slabs[2]) + 4096;
    auto **header = static_cast<void **>(keep("decoy", malloc(4 * sizeof(void *))));
    const std::array<void *, 3> words = {end - 100, end, slabs};
    const uint32_t counts[2] = {3, 4};
    memcpy(header, words.data(), sizeof words);
    memcpy(header + 3, counts, sizeof counts);
}

} // namespace

int main(int argc, char **argv)
{
    char byte;
    setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
    const unsigned rounds = argc > 1 ? unsigned(atoi(argv[1])) : many;
    for (unsigned i = 0; i < rounds; i++) {
        make_maps(40 + i * i * 5);
        make_decoys(i);
        auto *slabs = new Slabs;
        for (unsigned k = 0; k < 1 + i * i * 40; k++)
            slabs->Allocate(100 + k % 50, 8);
        slabs->Allocate(5000, 8);
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
