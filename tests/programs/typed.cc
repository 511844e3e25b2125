// SPDX-License-Identifier: MIT
// Knows the types of its chunks by heart: prints lines "TYPE ADDRESS" for what malloc returned, then "ready", and waits for the end
// of its input. None of its classes but one has virtual functions: nothing but debug information tells their objects apart. A type
// that begins with "!" must not be named, as nobody could say it for sure. Addresses are kept inverted.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <malloc.h>
#include <unistd.h>

namespace
{

struct Known {
    const char *type;
    std::uintptr_t inverted;
};
Known known[400'000];
int known_count;

} // namespace

template <typename T> static T *know(const char *type, T *object)
{
    if (object)
        known[known_count++] = {type, ~reinterpret_cast<std::uintptr_t>(object)};
    return object;
}

namespace app
{

struct Address {
    char *street;
    int number, floor;
    double where[2];
};

namespace net
{
struct Session {
    long id;
    Address *home;
    int *scores;
    Session *peer;
    char tag[24];
};

template <typename T> struct Slot {
    T *value;
    unsigned hash, used;
};

struct Cache {
    Slot<Session> entries[16];
    Slot<Session> *more; // of them, an array
    static Cache *only;
};
Cache *Cache::only;
} // namespace net

// Without virtual functions, a pointer to the base tells nothing of what it leads to.
struct Shape {
    long kind;
    Shape *next;
};
struct Circle : Shape {
    double radius;
};

struct Plain {
    long a, b, c, d, e;
};

struct Tagged {
    int kind;
    union {
        Plain *plain;
        Address *address;
        long number;
    } what;
};

struct Container {
    void *anything;
    std::unique_ptr<net::Session> session;
    std::shared_ptr<Plain> shared;
    std::optional<Address *> maybe;
    std::vector<Plain> plains;
    std::vector<net::Session *> sessions;
    std::vector<bool> bits;
};

struct Key {
    int a, b, c, d, e;
    bool operator<(const Key &other) const
    {
        return a < other.a;
    }
};

class Registry
{
  public:
    std::map<Key, net::Session> sessions;
    std::set<long> ids;
    std::unordered_map<int, Plain> by_number;
    std::unordered_set<long> numbers;
    std::list<Address> addresses;
    std::forward_list<Plain> forward;
    std::deque<Plain> queue;
    std::map<int, std::vector<net::Session *>> groups;
};

// Defined outside of what declares it: in a unit for one type the declaration is behind the definition.
struct Outer {
    struct Inner;
    Inner *inner;
    long numbers[2];
};
struct Outer::Inner {
    Plain *plain;
    long numbers[6];
};

struct Inside {
    Plain *middle; // of something else
    Address *same;
};

struct Part { // its class is told by its vtable; what it holds, by debug information
    virtual ~Part() = default;
    Plain *plain = nullptr;
    long *numbers = nullptr;
};

} // namespace app

// C's way.
extern "C" {
struct entry {
    struct entry *next;
    const char *key;
    void *value;
    int hash, more;
};
typedef struct {
    struct entry **buckets;
    unsigned count, mask;
} table;
struct flexible {
    long length;
    double values[];
};
}

table *symbols;
struct flexible *samples;
app::Registry registry;
app::Registry *second;
std::list<app::Plain> *list_in_a_chunk;
std::vector<app::Container *> containers;
app::Shape *shape;
app::Part *part;
app::Tagged *tagged[100];
void *anything;
app::net::Session *recent[8];
app::Inside *inside;
app::Outer *outer;
app::net::Session *part_of_more;
app::Plain *one_of_two, *in_the_middle;
app::net::Session **partly;
std::deque<app::Plain> *short_queue;

static app::Address *make_address(int i)
{
    auto *made = know("app::Address", new app::Address{nullptr, i, i, {1.5, 2.5}});
    made->street = know("char[]", new char[100 + i % 50]);
    return made;
}

static void fill(app::net::Session *s, int i)
{
    s->id = i;
    s->home = make_address(i);
    s->scores = know("int[]", new int[20]);
}

static app::net::Session *make_session(int i)
{
    auto *made = know("app::net::Session", new app::net::Session{});
    fill(made, i);
    return made;
}

static void fill_table(int count)
{
    symbols = know("table", static_cast<table *>(std::calloc(1, sizeof(table))));
    symbols->mask = 1023;
    symbols->buckets = know("entry*[]", static_cast<struct entry **>(std::calloc(1024, sizeof(struct entry *))));
    for (int i = 0; i < count; i++) {
        auto *made = know("entry", static_cast<struct entry *>(std::malloc(sizeof(struct entry))));
        *made = {symbols->buckets[i % 1024], know("char[]", strdup("a key that is longer than one word")), nullptr, i,
                 0};
        made->value = know("!void", std::malloc(64));
        symbols->buckets[i % 1024] = made;
    }
    samples = know("flexible",
                   static_cast<struct flexible *>(std::calloc(1, sizeof(struct flexible) + 1000 * sizeof(double))));
}

// The chunks of a container's nodes are found by their elements: the node begins so many bytes before.
template <typename T> static void know_node(const char *type, const T *element, std::size_t before)
{
    know(type, reinterpret_cast<const char *>(element) - before);
}

static void fill_registry(app::Registry *r, int count)
{
    for (int i = 0; i < count; i++) {
        auto &session = r->sessions[{i, i, i, i, i}];
        know_node("std::_Rb_tree_node<std::pair<app::Key const, app::net::Session> >", &session, 32 + 24);
        fill(&session, i);
        know_node("std::_Rb_tree_node<long>", &*r->ids.insert(i).first, 32);
        know_node("std::__detail::_Hash_node<std::pair<int const, app::Plain>, false>", &r->by_number[i], 8 + 8);
        know_node("std::__detail::_Hash_node<long, false>", &*r->numbers.insert(i).first, 8);
        r->addresses.push_back({nullptr, i, i, {}});
        know_node("std::_List_node<app::Address>", &r->addresses.back(), 16);
        r->addresses.back().street = know("char[]", new char[40]);
        r->forward.push_front({});
        know_node("std::_Fwd_list_node<app::Plain>", &r->forward.front(), 8);
        r->queue.push_back({});
        if (i % 12 == 0) // 12 of them to a block
            know("app::Plain[]", &r->queue.back());
        auto &group = r->groups[i / 10];
        if (i % 10 == 0) {
            know_node("std::_Rb_tree_node<std::pair<int const, std::vector<app::net::Session*, "
                      "std::allocator<app::net::Session*> > > >",
                      &group, 40);
            group.reserve(20); // half of them stay what malloc has left there
        }
        group.push_back(make_session(i));
        if (i % 10 == 9)
            know("app::net::Session*[]", group.data());
    }
}

static void fill_containers(int count)
{
    for (int i = 0; i < count; i++) {
        auto *container = know("app::Container", new app::Container{});
        containers.push_back(container);
        container->anything = know("!void", std::malloc(48));
        container->session.reset(make_session(i));
        container->shared = std::shared_ptr<app::Plain>(know("app::Plain", new app::Plain{}));
        container->maybe = make_address(i);
        container->plains.resize(5);
        know("app::Plain[]", container->plains.data());
        container->sessions.reserve(8);
        container->sessions.push_back(make_session(i));
        know("app::net::Session*[]", container->sessions.data());
        container->bits.resize(1000);
    }
    know("app::Container*[]", containers.data());
}

static void fill_rest()
{
    shape = nullptr;
    for (int i = 0; i < 100; i++) {
        app::Shape *made = know("!app::Circle", new app::Circle);
        made->next = shape;
        shape = made;
        tagged[i] = know("app::Tagged", new app::Tagged{});
        tagged[i]->kind = i % 2;
        if (i % 2)
            tagged[i]->what.plain = know("!app::Plain", new app::Plain{});
        else
            tagged[i]->what.address = know("!app::Address", new app::Address{});
    }
    app::net::Cache::only = know("app::net::Cache", new app::net::Cache{});
    for (auto &entry : app::net::Cache::only->entries)
        entry.value = make_session(1);
    app::net::Cache::only->more =
        know("app::net::Slot<app::net::Session>[]", new app::net::Slot<app::net::Session>[30]());
    for (int i = 0; i < 30; i++)
        app::net::Cache::only->more[i].value = make_session(2);
    list_in_a_chunk = know("std::__cxx11::list<app::Plain, std::allocator<app::Plain> >", new std::list<app::Plain>);
    for (int i = 0; i < 100; i++) {
        list_in_a_chunk->push_back({});
        know_node("std::_List_node<app::Plain>", &list_in_a_chunk->back(), 16);
    }
    part = know("app::Part", new app::Part);
    part->plain = know("app::Plain", new app::Plain{});
    part->numbers = know("long[]", new long[100]());
    outer = know("app::Outer", new app::Outer{});
    outer->inner = know("app::Outer::Inner", new app::Outer::Inner{});
    outer->inner->plain = know("app::Plain", new app::Plain{});
    anything = know("!void", new app::Plain{});
    for (auto &one : recent)
        one = make_session(3);
    static app::Address *of_a_function = make_address(7);
    of_a_function->floor++;
}

// The next chunk of that size has pointers to `first` and `second` in it, but for what malloc keeps in its first two words.
static void soil(std::size_t size, void *first, void *second)
{
    auto *left = static_cast<void *volatile *>(std::malloc(size));
    for (std::size_t i = 0; i < size / sizeof(void *); i++)
        left[i] = i % 2 ? first : second;
    std::free(const_cast<void **>(left));
}

// What is left over in a container, or in an array, leads to chunks of a size that fits, whose types nobody can know.
static void fill_soiled()
{
    void *plains = know("!void", std::calloc(12, sizeof(app::Plain)));
    void *session = know("!void", std::malloc(sizeof(app::net::Session)));
    void *small = know("!void", std::malloc(24));
    short_queue = know("std::deque<app::Plain, std::allocator<app::Plain> >", new std::deque<app::Plain>);
    std::deque<app::Plain> other; // has the first chunk of that size
    soil(8 * sizeof(void *), plains, plains);
    *short_queue = std::deque<app::Plain>();
    short_queue->push_back({});
    know("app::Plain[]", &short_queue->front());
    soil(20 * sizeof(void *), session, small);
    partly = static_cast<app::net::Session **>(std::malloc(20 * sizeof(void *)));
    know("app::net::Session*[]", partly);
    partly[0] = know("!app::net::Session", new app::net::Session{}); // which of them are in use nobody can know
    partly[1] = partly[2] = partly[0];
    containers.push_back(know("app::Container", new app::Container{})); // for which there was room
    soil(20 * sizeof(void *), session, session);
    containers.back()->sessions.reserve(20);
    containers.back()->sessions.push_back(recent[0]);
    know("app::net::Session*[]", containers.back()->sessions.data());
}

static void fill_conflicts()
{
    inside = know("app::Inside", new app::Inside{});
    inside->middle =
        reinterpret_cast<app::Plain *>(know("!void", static_cast<char *>(std::calloc(2, sizeof(app::Plain)))) + 16);
    in_the_middle =
        reinterpret_cast<app::Plain *>(know("!void", static_cast<char *>(std::calloc(2, sizeof(app::Plain)))) + 16);
    part_of_more = reinterpret_cast<app::net::Session *>(know("!void", static_cast<char *>(std::calloc(1, 88))));
    one_of_two = know("!app::Plain", new app::Plain{});
    inside->same = reinterpret_cast<app::Address *>(one_of_two);
}

int main()
{
    // What was there before lies in what is allocated later: of all sizes, and it led to sessions.
    auto **junk = static_cast<void ***>(std::calloc(4000, sizeof(void *)));
    for (int i = 0; i < 4000; i++) {
        junk[i] = static_cast<void **>(std::malloc(16 + i % 40 * 16));
        for (std::size_t k = 0; k < malloc_usable_size(junk[i]) / 8; k++)
            junk[i][k] = junk[i / 2];
    }
    for (int i = 0; i < 4000; i++)
        std::free(junk[i]);
    std::free(junk);
    fill_table(3000);
    fill_registry(&registry, 2000);
    second = know("app::Registry", new app::Registry);
    fill_registry(second, 200);
    fill_containers(500);
    fill_rest();
    fill_soiled();
    fill_conflicts();
    for (int i = 0; i < known_count; i++)
        std::printf("%s\t0x%zx\n", known[i].type, static_cast<std::size_t>(~known[i].inverted));
    std::puts("ready");
    std::fflush(stdout);
    char byte;
    std::_Exit(read(0, &byte, 1) == 0 && anything ? 0 : 1);
}
