// SPDX-License-Identifier: MIT
// Knows its heap as a graph: says of each object where it is, what holds it, and whether it is lost. Prints lines
// "OWNER ADDRESS", then "ready", and waits for the end of its input. OWNER: "direct" or "indirect" for what is lost, else
// what the only pointer to the object lies in. Addresses are kept inverted, as this program's own memory is searched as well.
// With LeakSanitizer (-DWITH_LSAN) it leaves out what that sanitizer does not search, and asks it instead of waiting.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef WITH_LSAN
#include <sanitizer/lsan_interface.h>
#endif

namespace
{

constexpr int MOST = 100'000;
constexpr std::size_t MIB = 1 << 20;

struct Known {
    const char *owner;
    std::uintptr_t inverted;
};
Known known[MOST];
int known_count;

template <typename T> T *know(const char *owner, T *object)
{
    known[known_count++] = {owner, ~reinterpret_cast<std::uintptr_t>(object)};
    return object;
}

// What earlier calls have left on the stack and in registers is not there any more. Without a reader of the zeros, compilers leave out
// the call, and what is there depends on the processor and the kernel.
[[gnu::noinline]] void scrub()
{
    char stack[256 << 10];
    std::memset(stack, 0, sizeof stack);
    asm volatile("" : : "r"(stack) : "memory");
}

// A pointer that an earlier call has left so deep below the stack pointer that nobody counts it.
[[gnu::noinline]] void leave_below(std::uintptr_t inverted)
{
    std::uintptr_t stack[16 << 10];
    std::memset(stack, 0, sizeof stack);
    stack[8 << 10] = ~inverted;
    asm volatile("" : : "r"(stack) : "memory");
}

struct Part {
    virtual ~Part() = default;
    virtual int kind() const
    {
        return 1;
    }
    std::string name;
};
struct Wheel : Part {
    int kind() const override
    {
        return 2;
    }
    long spokes[4] = {};
};
struct Named {
    virtual ~Named() = default;
    long id = 0;
};
struct Car : Named, Part { // the second base lies in the middle
    Part *part()
    {
        return this;
    }
};
struct Hook {
    Hook *next = nullptr;
};
struct Member { // of an intrusive list: pointers lead to the hook
    long value = 0;
    Hook hook;
};
struct Friend {
    std::shared_ptr<Friend> other;
};
struct Node {
    Node *next;
    long value;
};

} // namespace

// What holds things. With external linkage, and so not of a type of this file's: what nobody could read, compilers leave out.
Wheel *global_wheel;
std::unordered_map<int, std::unique_ptr<Part>> all_parts;
std::map<std::string, std::vector<int>> by_name;
std::list<Member *> members;
Hook *hooks;
std::uintptr_t tagged;
void *second_base;
long *past_the_end;
void *held_besides;
std::vector<void *> with_room;
void **in_shared_memory, **in_anonymous_memory;
char *arena; // an arena of its own: a chunk in which objects lie
std::vector<Node *> *large;
thread_local void *of_the_main_thread;

namespace
{

[[gnu::noinline]] void hold()
{
    global_wheel = know("variable", new Wheel);
    global_wheel->name = std::string(100, 'g');
    know("Wheel", global_wheel->name.data());
    for (int i = 0; i < 1000; i++) {
        all_parts[i] = i % 2 ? std::make_unique<Wheel>() : std::make_unique<Part>();
        all_parts[i]->name = std::string(20 + i % 50, 'p');
        know("unordered_map", all_parts[i].get());
        by_name["the name of number " + std::to_string(i)] = std::vector<int>(20, i);
        know("map", by_name["the name of number " + std::to_string(i)].data());
        Member *member = know("list", new Member);
        members.push_back(member);
    }
    for (int i = 0; i < 100; i++) {
        Member *member = know("hook", new Member);
        member->hook.next = hooks;
        hooks = &member->hook;
    }
    tagged = reinterpret_cast<std::uintptr_t>(know("tagged", new Wheel)) | 7;
    second_base = know("second base", new Car)->part();
    arena = know("arena", new char[64 << 10]());
    for (int i = 0; i < 100; i++) {
        Node *node = know("in an arena", new Node{nullptr, i});
        std::memcpy(arena + 1000 * 8 + 64 * i, &node, sizeof node);
    }
    large = know("variable", new std::vector<Node *>); // its body has a mapping of its own
    large->reserve(MIB / 4);
    for (int i = 0; i < 100; i++)
        large->push_back(know("vector", new Node{nullptr, i}));
    know("vector", large->data());
    // An old pointer in a vector's unused room makes it no owner of what a variable holds; but it may be the only one.
    with_room.reserve(5); // not 6: for LeakSanitizer, what lies behind the limit would be held by it
    with_room.push_back(know("room", new Node{nullptr, 1}));
    Node *inner = know("besides", new Node{nullptr, 3});
    held_besides = know("besides", new Node{inner, 2});
    with_room.data()[2] = inner;
    with_room.data()[3] = know("room", new Node{nullptr, 4});
    know("room", with_room.data());
    of_the_main_thread = know("thread_local", new Node{nullptr, 1});
#ifndef WITH_LSAN
    long *array = know("past the end", new long[3]); // all 24 bytes that a chunk of 32 has room for
    past_the_end = array + 3;
    void *shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *anonymous = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || anonymous == MAP_FAILED)
        std::abort();
    in_shared_memory = static_cast<void **>(shared);
    in_anonymous_memory = static_cast<void **>(anonymous);
    *in_shared_memory = know("shared memory", new Node{nullptr, 1});
    *in_anonymous_memory = know("anonymous memory", new Node{nullptr, 1});
#endif
}

Node *make_list(int length, const char *head, const char *others)
{
    Node *first = nullptr;
    for (int i = 0; i < length; i++)
        first = know(i + 1 == length ? head : others, new Node{first, i});
    return first;
}

[[gnu::noinline]] void lose()
{
    for (int i = 0; i < 100; i++) {
        Wheel *wheel = know("direct", new Wheel);
        wheel->name = std::string(60, 'l');
        know("indirect", wheel->name.data());
    }
    make_list(50, "direct", "indirect");
    auto a = std::make_shared<Friend>(), b = std::make_shared<Friend>(); // a circle: one of them is lost directly
    a->other = b;
    b->other = a;
    auto *map = know("direct", new std::map<int, int>);
    for (int i = 0; i < 50; i++)
        know("indirect", &(*map)[i]);
    auto *body = know("direct", new std::vector<Node *>);
    body->reserve(MIB / 4); // with a mapping of its own
    body->push_back(know("indirect", new Node{nullptr, 1}));
    know("indirect", body->data());
    Car *car = know("direct", new Car);
    car->name = std::string(200, 'c');
    know("indirect", car->name.data());
}

// In another arena. The thread's stack is gone before anybody reads it: glibc would keep it, and all that lies there.
void lose_in_a_thread()
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * MIB); // more than glibc keeps
    auto work = [](void *) -> void * {
        make_list(50, "direct", "indirect");
        return nullptr;
    };
    if (pthread_create(&thread, &attributes, work, nullptr) != 0 || pthread_join(thread, nullptr) != 0)
        std::abort();
    pthread_attr_destroy(&attributes);
}

int pipes[2];
std::atomic<bool> is_known;

// A thread that waits with the only pointer to an object on its stack.
void *wait_with_a_node(void *)
{
    Node *volatile node = know("stack", new Node{nullptr, 1});
    Node *volatile again = node;
    is_known = true;
    char byte;
    ssize_t got = read(pipes[0], &byte, 1);
    return got == 0 && node == again ? nullptr : node;
}

} // namespace

int main()
{
    pthread_t waiting;
    if (pipe(pipes) != 0 || pthread_create(&waiting, nullptr, wait_with_a_node, nullptr) != 0)
        return 1;
    while (!is_known) // what is known has no lock
        sched_yield();
    hold();
    lose();
    lose_in_a_thread();
    const std::uintptr_t below = ~reinterpret_cast<std::uintptr_t>(know("direct", new Node{nullptr, 1}));
    scrub();
#ifdef WITH_LSAN
    __lsan_do_recoverable_leak_check();
    std::_Exit(0);
#endif
    for (int i = 0; i < known_count; i++)
        std::printf("%s\t0x%zx\n", known[i].owner, static_cast<std::size_t>(~known[i].inverted));
    std::puts("ready");
    std::fflush(stdout);
    scrub();
    leave_below(below);
    char byte;
    std::_Exit(read(0, &byte, 1) == 0 && of_the_main_thread ? 0 : 1); // Valgrind searches then: nothing has been destroyed
}
