// SPDX-License-Identifier: MIT
// What the fuzzer of split debug information begins with: a little of each kind of type and variable.
struct Base {
    virtual ~Base();
    long number;
};

template <typename T> struct List {
    List *next;
    T *value;
    T room[3];
};

namespace app
{
struct Key : Base {
    enum class Kind : unsigned char { One, Two } kind;
    unsigned flag : 3;
    union {
        char *text;
        double number;
    } either;
    void (*call)(Key *);
};
typedef List<Key> Keys;
static Keys *held;
thread_local List<int> *own;
} // namespace app

Base::~Base() = default;
app::Key first;
int (*table[2][4])(char);

int main(int count, char **words)
{
    static app::Keys *last = app::held;
    app::own = nullptr;
    return last != nullptr || words[count] != nullptr;
}
