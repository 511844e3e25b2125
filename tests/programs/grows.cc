// SPDX-License-Identifier: MIT
// Grows by known types at known rates: `grows HELD LOST CACHE`. HELD and LOST are bytes of chunks a minute: of Session, which the variable
// app::open_sessions holds, and of Forgotten, to which nothing leads. CACHE is the number of Entry that app::cache holds after a second,
// and never more. Prints "ready", then goes on until it is killed. With a fourth word its clock stands still: each byte of its input is
// 50 ms, after which it prints "grown".
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace app
{

// Each takes a chunk of a size of its own: 3,008, 2,016 and 1,008 bytes.
struct Session {
    virtual ~Session() = default;
    Session *below = nullptr;
    char state[2984] = {};
};
struct Forgotten {
    virtual ~Forgotten() = default;
    char state[2000] = {};
};
struct Entry {
    virtual ~Entry() = default;
    Entry *below = nullptr;
    char state[984] = {};
};

Session *open_sessions;
Entry *cache;
Forgotten *volatile last;

} // namespace app

namespace
{

double clock_now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

template <typename T> void push(T *&list)
{
    T *made = new T;
    made->below = list;
    list = made;
}

[[gnu::noinline]] void forget()
{
    app::last = new app::Forgotten;
    app::last = nullptr;
}

// So many bytes a minute, in chunks of so many bytes, after so many seconds.
long wanted(const char *rate, double seconds, long chunk)
{
    return static_cast<long>(std::atof(rate) / 60 * seconds / static_cast<double>(chunk));
}

// Grows up to what there is after so many seconds.
void grow(char **words, double since)
{
    static long held, lost, cached;
    for (; held < wanted(words[1], since, 3008); held++)
        push(app::open_sessions);
    for (; lost < wanted(words[2], since, 2016); lost++)
        forget();
    for (; cached < std::atol(words[3]) && static_cast<double>(cached) < since * std::atof(words[3]); cached++)
        push(app::cache);
}

} // namespace

int main(int count, char **words)
{
    if (count != 4 && count != 5)
        return 2;
    std::setvbuf(stdin, nullptr, _IONBF, 0);
    std::puts("ready");
    std::fflush(stdout);
    if (count == 5) {
        for (double since = 0.05; std::getchar() != EOF; since += 0.05) {
            grow(words, since);
            std::puts("grown");
            std::fflush(stdout);
        }
        return 0;
    }
    const double begun = clock_now();
    for (;;) {
        grow(words, clock_now() - begun);
        timespec pause = {0, 5'000'000};
        nanosleep(&pause, nullptr);
    }
}
