// SPDX-License-Identifier: MIT
// Three types whose objects are of one size: a cache of constant size that replaces its entries, sessions that grow, and notes that go.
// Arguments: how many ENTRIES there are, which are all replaced at each line of standard input; how many SESSIONS come then; how many
// of four times as many NOTES go then, the first at once. Says "ready" when all is done.
#include <cstdio>
#include <cstdlib>

namespace shop
{

enum { ROOM = 1 << 16, TEXT = 80 };

struct Entry {
    char text[TEXT];
};

struct Note {
    char text[TEXT];
};

class Session
{
  public:
    explicit Session(int number)
    {
        text_[0] = static_cast<char>(number);
    }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    virtual ~Session() = default;

  private:
    char text_[TEXT - sizeof(void *)] = {};
};

Entry *cache[ROOM];
Session *sessions[ROOM];
Note *notes[ROOM];
int session_count, note_count;

__attribute__((noinline)) void serve(int entries, int come, int go)
{
    for (int i = 0; i < entries; i++) {
        delete cache[i];
        cache[i] = new Entry{};
    }
    for (int i = 0; i < come; i++) {
        sessions[session_count] = new Session(i);
        session_count++;
    }
    for (int i = 0; i < go; i++) {
        delete notes[--note_count];
        notes[note_count] = nullptr;
    }
}

} // namespace shop

int main(int argc, char **argv)
{
    static char in[BUFSIZ], out[BUFSIZ]; // of malloc's, they would leave remainders that make some chunks larger
    if (argc != 4)
        return 2;
    std::setvbuf(stdin, in, _IOFBF, sizeof in);
    std::setvbuf(stdout, out, _IOFBF, sizeof out);
    using namespace shop;
    const int entries = std::atoi(argv[1]);
    const int come = std::atoi(argv[2]);
    const int go = std::atoi(argv[3]);
    for (; note_count < 4 * go; note_count++)
        notes[note_count] = new Note{};
    serve(entries, come, go);
    do {
        char line[16];
        std::puts("ready");
        std::fflush(stdout);
        if (!std::fgets(line, sizeof line, stdin))
            return 0;
        serve(entries, come, go);
    } while (true);
}
