// SPDX-License-Identifier: MIT
// Knows of each of its chunks what it is: containers of the standard library with plain and with virtual values, smart pointers
// in circles, several bases, plain structures, text, zeros. Prints lines "KIND SIZE ADDRESS" (SIZE: bytes that were asked for),
// then "ready", and waits for the end of its input. What lies in no line is the C library's. Addresses are kept inverted,
// as this program's own memory is searched as well.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace
{

struct Known {
    const char *kind;
    std::size_t size;
    std::uintptr_t inverted; // 0: freed
};
constexpr int MOST = 400'000;
Known known[MOST];
int known_count;

// What operator new is asked for now: chunks of `size` bytes are of the first kind, others of the second.
struct Expected {
    const char *kind = "runtime";
    std::size_t size = 0;
    const char *other = "runtime";
};
Expected expected;

void *know(const char *kind, std::size_t size, void *chunk)
{
    if (!chunk || known_count == MOST)
        std::abort();
    known[known_count++] = {kind, size, ~reinterpret_cast<std::uintptr_t>(chunk)};
    return chunk;
}

void forget(void *chunk)
{
    for (int i = known_count - 1; chunk && i >= 0; i--)
        if (known[i].inverted == ~reinterpret_cast<std::uintptr_t>(chunk)) {
            known[i].inverted = 0;
            return;
        }
}

void expect(const char *kind, std::size_t size = 0, const char *other = nullptr)
{
    expected = {kind, size, other ? other : kind};
    __asm__ volatile("" ::: "memory"); // compilers know that operator new reads no variable
}

// What earlier calls have left on the stack is not there any more.
[[gnu::noinline]] void scrub()
{
    char stack[128 << 10];
    std::memset(stack, 0, sizeof stack);
    asm volatile("" : : "r"(stack) : "memory"); // a reader of the zeros: else compilers leave out the call
}

} // namespace

[[gnu::noinline]] void *operator new(std::size_t size)
{
    return know(size == expected.size ? expected.kind : expected.other, size, std::malloc(size));
}
[[gnu::noinline]] void operator delete(void *chunk) noexcept
{
    forget(chunk);
    std::free(chunk);
}
[[gnu::noinline]] void operator delete(void *chunk, std::size_t) noexcept
{
    forget(chunk);
    std::free(chunk);
}

struct Shape {
    virtual ~Shape() = default;
    double area = 1;
};
struct Circle : Shape {
    double radius[3] = {1, 2, 3};
};
struct Named {
    virtual ~Named() = default;
    long id = 0;
};
struct Badge : Named, Shape { // several bases
    long number = 7;
};
struct Friend {
    std::shared_ptr<Friend> other;
    long data[4] = {};
};
struct Plain {
    long a, b, c, d;
};
struct Big { // a value that is larger than a block of a deque
    long values[100];
};
struct Chained {
    long value;
    Chained *next;
};
struct Grown { // a tree without ways back
    long key;
    Grown *left, *right;
};
struct Folder { // a tree with ways back, but its own: parent, first child, last child, next
    long key;
    Folder *parent, *first, *last, *next;
};
struct Doubly {
    void *data;
    Doubly *next, *previous;
};
struct Tail { // its last word has the only pointer to a chunk
    long values[6];
    Plain *last;
};
struct Counted { // numbers beside the pointer that fit the chunk's size by chance
    Tail *tail;
    long used, room;
};
struct Person { // begins with a text
    char name[32];
    long age;
};

std::map<int, long> numbers;
std::map<std::string, std::vector<int>> by_name;
std::set<std::string> words;
std::multimap<long, Circle> circles;
std::map<int, int> empty_map, map_of_one, map_of_two, map_of_three;
std::vector<std::map<int, int>> small_maps;
std::map<int, int> *own_map;
std::list<int> integers;
std::list<Plain> plains;
std::list<Circle> rings;
std::list<long> list_of_one, list_of_two;
std::vector<std::list<long>> small_lists;
std::list<long> *own_list;
std::forward_list<int> forward;
std::unordered_map<int, std::unique_ptr<Shape>> shapes;
std::unordered_set<std::string> unordered_words;
std::unordered_multimap<long, Plain> unordered_plains;
std::unordered_map<int, int> *own_table;
std::unordered_map<int, int> reserved;
std::deque<int> queue;
std::deque<Big> bigs;
std::queue<long> *waiting;
std::vector<long> longs;
// Zeros before an address are what a class without RTTI has there, but behind it no code is.
extern const long no_vtable[64];
const long no_vtable[64] = {};
std::vector<const long *> of_zeros;
std::vector<bool> bits;
std::priority_queue<int> heap;
std::vector<std::string> texts;
std::vector<std::unique_ptr<Shape>> owned;
std::shared_ptr<Friend> friends[20];
std::shared_ptr<Plain> adopted[20];
Badge *badges[50];
Shape *second_bases[50];
Plain *raw[40];
Chained *chain;
Grown *grown;
Folder *folders;
Doubly *doubly;
Person *persons[20];
Counted counted[20];
char *duplicates[100];
char *empty_pages;
void *zeros[20];

namespace
{

[[gnu::noinline]] void make_trees()
{
    constexpr std::size_t base = 4 * sizeof(void *);
    expect("tree node");
    for (int i = 0; i < 5000; i++)
        numbers[i * 7919 % 100003] = i;
    map_of_one[1] = 1;
    map_of_two[1] = map_of_two[2] = 1;
    map_of_three[1] = map_of_three[2] = map_of_three[3] = 1;
    for (int i = 0; i < 300; i++)
        circles.emplace(i % 50, Circle());
    expect("array");
    small_maps.resize(100);
    expect("tree node");
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < i % 8; k++)
            small_maps[static_cast<std::size_t>(i)][100 - k] = k;
    expect("object", sizeof *own_map);
    own_map = new std::map<int, int>;
    expect("tree node");
    for (int i = 0; i < 100; i++)
        (*own_map)[i] = i;
    for (int i = 0; i < 500; i++) {
        std::string name = "the name that belongs to number " + std::to_string(i);
        expect("tree node", base + sizeof(decltype(by_name)::value_type), "text");
        auto &value = by_name[name];
        expect("array");
        value = std::vector<int>(20, i);
        expect("tree node", base + sizeof(std::string), "text");
        words.insert(name);
        expect("runtime");
    }
}

[[gnu::noinline]] void make_lists()
{
    expect("list node");
    for (int i = 0; i < 2000; i++) {
        integers.push_back(i);
        plains.push_front({i, i, i, i});
        rings.emplace_back();
    }
    list_of_one.push_back(1);
    list_of_two.assign(2, 2);
    expect("array");
    small_lists.resize(100);
    expect("list node");
    for (int i = 0; i < 100; i++)
        small_lists[static_cast<std::size_t>(i)].assign(static_cast<std::size_t>(i % 5), i);
    expect("list header", sizeof *own_list);
    own_list = new std::list<long>;
    expect("list node");
    own_list->assign(50, 1);
    expect("single node");
    for (int i = 0; i < 1000; i++)
        forward.push_front(i);
    for (int i = 0; i < 1000; i++)
        chain = new Chained{i, chain};
    expect("double node");
    for (int i = 0; i < 1000; i++) {
        Doubly *made = new Doubly{nullptr, doubly, nullptr};
        if (doubly)
            doubly->previous = made;
        doubly = made;
    }
}

[[gnu::noinline]] void make_tables()
{
    constexpr std::size_t link = sizeof(void *);
    for (int i = 0; i < 3000; i++) {
        expect("Circle");
        auto circle = std::make_unique<Circle>();
        expect("hash node", 3 * link, "buckets");
#ifdef _LIBCPP_VERSION
        expect("hash node", 4 * link, "buckets");
#endif
        shapes[i] = std::move(circle);
    }
    for (int i = 0; i < 1000; i++) {
        expect("text");
        std::string word = "a word that stands in an unordered set: " + std::to_string(i);
        expect("hash node", 2 * link + sizeof word, "buckets");
        unordered_words.insert(std::move(word));
    }
    expect("buckets");
    unordered_plains.reserve(2000);
    expect("hash node");
    for (int i = 0; i < 1000; i++)
        unordered_plains.emplace(i % 100, Plain{i, i, i, i});
    expect("object", sizeof *own_table);
    own_table = new std::unordered_map<int, int>;
    expect("buckets");
    own_table->reserve(300);
    reserved.reserve(1000);
    expect("hash node");
    for (int i = 0; i < 200; i++)
        (*own_table)[i] = i;
}

[[gnu::noinline]] void make_arrays()
{
#ifdef _LIBCPP_VERSION
    constexpr std::size_t block = 4096, big = 16 * sizeof(Big);
#else
    constexpr std::size_t block = 512, big = sizeof(Big);
#endif
    expect("block", block, "map of blocks");
    for (int i = 0; i < 20000; i++) {
        queue.push_back(i);
        if (i % 3 == 0)
            queue.pop_front();
    }
    expect("block", big, "map of blocks");
    for (int i = 0; i < 40; i++)
        bigs.push_front(Big{});
    expect("object", sizeof *waiting);
    void *room = operator new(sizeof *waiting);
    expect("block", block, "map of blocks");
    waiting = new (room) std::queue<long>;
    for (long i = 0; i < 5000; i++)
        waiting->push(i);
    expect("array");
    for (int i = 0; i < 1000; i++) {
        longs.push_back(i);
        heap.push(i);
    }
    for (int i = 0; i < 50; i++)
        of_zeros.push_back(no_vtable + 2 + i);
    texts.reserve(300);
    owned.reserve(200);
    expect("bits");
    bits.resize(10000, true);
    expect("text");
    for (std::size_t i = 0; i < 300; i++)
        texts.emplace_back(20 + i, 't');
    expect("Circle");
    for (int i = 0; i < 200; i++)
        owned.push_back(std::make_unique<Circle>());
}

[[gnu::noinline]] void make_objects()
{
    expect("control block");
    for (int i = 0; i < 20; i += 2) {
        friends[i] = std::make_shared<Friend>();
        friends[i + 1] = std::make_shared<Friend>();
        friends[i]->other = friends[i + 1];
        friends[i + 1]->other = friends[i]; // a circle
    }
    for (auto &one : adopted) {
        expect("object");
        Plain *plain = new Plain{1, 2, 3, 4};
        expect("control block");
        one.reset(plain);
    }
    expect("Badge");
    for (int i = 0; i < 50; i++) {
        badges[i] = new Badge;
        second_bases[i] = new Badge;
    }
    expect("object");
    for (int i = 0; i < 40; i++)
        raw[i] = new Plain{i, i, i, i};
    for (auto &one : counted)
        one = {new Tail{{1, 2, 3, 4, 5, 6}, new Plain{1, 2, 3, 4}}, 40, 41};
    expect("person");
    for (auto &person : persons) {
        person = new Person{};
        std::strcpy(person->name, "Miss Marple of St Mary Mead");
    }
}

[[gnu::noinline]] Grown *grow(int depth)
{
    return depth == 0 ? nullptr : new Grown{depth, grow(depth - 1), grow(depth - 2 < 0 ? 0 : depth - 2)};
}

[[gnu::noinline]] Folder *fold(Folder *parent, int depth)
{
    Folder *made = new Folder{depth, parent, nullptr, nullptr, nullptr};
    for (int i = 0; depth > 0 && i < 3; i++) {
        Folder *child = fold(made, depth - 1);
        *(made->last ? &made->last->next : &made->first) = child;
        made->last = child;
    }
    return made;
}

[[gnu::noinline]] void make_others()
{
    expect("object");
    grown = grow(6);
    folders = fold(nullptr, 3);
    expect("runtime");
    for (std::size_t i = 0; i < 100; i++) {
        std::size_t size = 30 + i;
        duplicates[i] = static_cast<char *>(know("C text", size + 1, std::malloc(size + 1)));
        std::memset(duplicates[i], 'c', size);
        duplicates[i][size] = 0;
    }
    empty_pages = static_cast<char *>(know("zeros", 300'000, std::calloc(300, 1000)));
    for (auto &zero : zeros)
        zero = know("zeros", 1000, std::calloc(10, 100));
}

} // namespace

int main()
{
    static char buffer[1 << 16];
    std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    make_trees();
    make_lists();
    make_tables();
    make_arrays();
    make_objects();
    make_others();
    expect("runtime");
    scrub();
    for (int i = 0; i < known_count; i++)
        if (known[i].inverted != 0)
            std::printf("%s\t%zu\t%p\n", known[i].kind, known[i].size, reinterpret_cast<void *>(~known[i].inverted));
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 1;
}
