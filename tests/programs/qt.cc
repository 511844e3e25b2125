// SPDX-License-Identifier: MIT
// Holds containers of Qt 5 or 6, and chunks that are nearly such containers. Prints lines "KIND ADDRESS" (0x...), of kind "decoy" for the
// latter, then "ready", and waits for the end of its input. An argument: how many
// rounds; the later ones are the larger.
#include <QByteArray>
#include <QHash>
#include <QList>
#include <QMap>
#include <QSet>
#include <QString>
#include <QVector>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <unistd.h>

namespace
{

constexpr int many = 40;
[[maybe_unused]] constexpr uint64_t one = 1;

template <class T> T *keep(const char *kind, T *chunk)
{
    printf("%s\t%p\n", kind, static_cast<const volatile void *>(chunk));
    return chunk;
}

uint64_t *decoy(size_t words)
{
    return keep("decoy", static_cast<uint64_t *>(calloc(words, sizeof(uint64_t))));
}

uint64_t at(const void *chunk)
{
    return reinterpret_cast<uint64_t>(chunk);
}

// A container's first word leads to all that it has.
template <class T> void *first(const T &container)
{
    void *word;
    memcpy(&word, static_cast<const void *>(&container), sizeof word);
    return word;
}

// An array that is no text proves in Qt 6 nothing of what it is.
template <class T> void keep_array(const T &array)
{
    keep(QT_VERSION < QT_VERSION_CHECK(6, 0, 0) ? "QArrayData" : "decoy", first(array));
}

// Text of one character may be an array of one byte just as well. Some short texts are not in malloc's memory.
void keep_text(const QString &text)
{
    if (void *chunk = first(text))
        text.size() > 1 ? (void)keep("QString", chunk) : keep_array(text);
}

struct Large {
    uint64_t words[5];
};

struct Held {
    QString latin, greek, empty;
    QByteArray bytes, zeros;
    QVector<quint64> numbers;
    QVector<Large> large;
    QVector<QString> texts;
    QVector<quint16> units[4];
};

// Numbers of 16 bits that are no text: no zero is behind; some are control characters; half of a pair is missing, first or second.
void make_numbers(QVector<quint16> (&units)[4])
{
    for (int kind = 0; kind < 4; kind++) {
        units[kind].reserve(60);
        for (int k = 0; k < 50; k++)
            units[kind].append(k >= 40 && kind > 0 ? 0 : 'a' + k);
        if (kind > 0)
            units[kind][20] = kind == 1 ? 2 : kind == 2 ? 0xd800 : 0xdc00;
        units[kind].resize(40);
        keep_array(units[kind]);
    }
}

// As a text that was there before leaves it in memory: its size is not the text's.
void leave_behind(uint64_t *words, const QString &text)
{
    if (text.size() > 2) {
        words[0] = at(first(text));
        words[1] = at(text.constData());
        words[2] = uint64_t(text.size() - 1);
    }
}

void make_arrays(int i)
{
    uint64_t *before = decoy(3);
    auto *held = new Held;
    for (int k = 0; k <= i * i; k++) {
        held->latin += QChar('a' + k % 26);
        held->bytes += char('a' + k % 26);
        held->zeros += char(k % 2 ? 0 : 'a');
        held->numbers.append(k);
        held->large.append(Large{});
    }
    held->greek = QString(40 + i, QChar(0x3b1));
    held->greek += QString::fromUcs4(U"\U0001f600");
    held->texts.resize(1 + i);
    leave_behind(before, held->latin);
    make_numbers(held->units);
    keep_text(held->latin);
    keep_text(held->greek);
    keep_array(held->bytes);
    keep_array(held->zeros);
    keep_array(held->numbers);
    keep_array(held->large);
    keep_array(held->texts);
    held->texts[i] = QString::number(i);
    keep_text(held->texts[i]);
}

#if QT_VERSION < QT_VERSION_CHECK(6, 0, 0)

template <class Table> void keep_hash(const Table &table)
{
    auto *data = static_cast<void **>(keep("QHash", first(table)));
    keep("QHash table", data[1]);
    for (auto i = table.begin(); i != table.end(); ++i)
        keep("QHash nodes", first(i));
}

template <class Map> void keep_map(const Map &map)
{
    keep("QMap", first(map));
    for (auto i = map.begin(); i != map.end(); ++i)
        keep("QMap node", first(i));
}

void make_maps(int i)
{
    auto *numbers = new QMap<int, Large>;
    auto *names = new QMap<QString, int>;
    for (int k = 0; k <= i * i * 3; k++) {
        numbers->insert(k * 7919 % 1009, {});
        names->insert(QString::number(k), k);
    }
    for (int k = 1; k < i * i; k += 3)
        names->remove(QString::number(k));
    keep_map(*numbers);
    keep_map(*names);
}

// A header with one thing wrong: no reference, more elements than room, elements elsewhere, a chunk too large, no element; a reference that
// is an address, as CPython's lists of members (name, type, offset) begin.
void make_array_decoys()
{
    for (int kind = 0; kind < 6; kind++) {
        uint64_t *array = decoy(3 + 100 + (kind == 3 ? 45 : 0));
        array[0] = (kind == 1 ? 101 : kind == 4 ? 0 : 5) * (one << 32) | (kind == 0 ? 0 : kind == 5 ? 0x713e28 : one);
        array[1] = 100;
        array[2] = kind == 2 ? 32 : 24;
    }
}

// Three nodes in two buckets. A wrong count; nodes of another size; buckets for three; a chain that leads to another table.
void make_hash_decoys()
{
    for (int kind = 0; kind < 4; kind++) {
        uint64_t *table = decoy(6), *buckets = decoy(2 + 4 * (kind == 2)), *other = decoy(6);
        uint64_t *nodes[3] = {decoy(3), decoy(3), decoy(3 + 3 * (kind == 1))};
        nodes[0][0] = at(nodes[1]);
        nodes[1][0] = at(table);
        nodes[2][0] = at(kind == 3 ? other : table);
        buckets[0] = at(nodes[0]);
        buckets[1] = at(nodes[2]);
        table[1] = at(buckets);
        table[2] = (kind == 0 ? 4 : 3) * (one << 32) | 1;
        table[3] = 24;
        table[4] = 2;
    }
}

// Three nodes. A wrong count; a child that leads elsewhere; another first node; a root that leads to the map's beginning; a child twice.
void make_map_decoys()
{
    for (int kind = 0; kind < 5; kind++) {
        uint64_t *map = decoy(5), *nodes[3] = {decoy(5), decoy(5), decoy(5)};
        map[0] = (kind == 0 ? 4 : 3) * (one << 32) | 1;
        map[2] = at(nodes[0]);
        map[4] = at(nodes[kind == 2 ? 2 : 1]);
        nodes[0][0] = at(map + (kind == 3 ? 0 : 1)) | 1;
        nodes[0][1] = at(nodes[1]);
        nodes[0][2] = at(nodes[kind == 4 ? 1 : 2]);
        nodes[1][0] = at(nodes[0]);
        nodes[2][0] = at(nodes[kind == 1 ? 1 : 0]);
    }
}

#else

template <class Table> void keep_hash(const Table &table)
{
    auto *data = static_cast<uint64_t *>(keep("QHash", first(table)));
    auto *spans = keep("QHash table", reinterpret_cast<uint64_t *>(data[4]) - 1);
    for (uint64_t i = 0; i < spans[0]; i++)
        if (void *entries = reinterpret_cast<void *>(spans[1 + i * 18 + 16]))
            keep("QHash nodes", entries);
}

void make_maps(int)
{
}

// A text to which leads: nothing; a pointer without one behind it to the characters; one with more characters than room; one with fewer
// than there are; or whose chunk is too large.
void make_array_decoys()
{
    for (int kind = 0; kind < 5; kind++) {
        uint64_t *array = decoy(2 + 26 + 6 * (kind == 4)), *owner = decoy(3);
        auto *text = reinterpret_cast<char16_t *>(array + 2);
        for (int i = 0; i < (kind == 2 ? 101 : 50); i++)
            text[i] = 'a';
        array[0] = 1;
        array[1] = 100;
        owner[0] = kind == 0 ? 0 : at(array);
        owner[1] = at(kind == 1 ? array : array + 2);
        owner[2] = kind == 2 ? 101 : kind == 3 ? 49 : 50;
    }
}

// Three entries in one span. A wrong count; two spans; an entry twice; one that is not there; no power of two; no reference.
void make_hash_decoys()
{
    for (int kind = 0; kind < 6; kind++) {
        uint64_t *table = decoy(5), *spans = decoy(1 + 18 * (1 + (kind == 1))), *entries = decoy(16 * 2);
        auto *offsets = reinterpret_cast<uint8_t *>(spans + 1);
        memset(offsets, 0xff, 128);
        for (int k = 0; k < 3; k++)
            offsets[k * 7] = uint8_t(k);
        if (kind == 1)
            memset(spans + 1 + 18, 0xff, 128);
        if (kind == 2 || kind == 3)
            offsets[14] = kind == 2 ? 0 : 16;
        spans[0] = kind == 1 ? 2 : 1;
        spans[1 + 16] = at(entries);
        spans[1 + 17] = 3 << 8 | 16;
        table[0] = kind != 5;
        table[1] = kind == 0 ? 4 : 3;
        table[2] = kind == 4 ? 129 : 128;
        table[4] = at(offsets);
    }
}

void make_map_decoys()
{
}

#endif

void make_hashes(int i)
{
    auto *numbers = new QHash<int, Large>;
    auto *names = new QHash<QString, int>;
    auto *set = new QSet<quint64>;
    for (int k = 0; k <= i * i * 3; k++) {
        numbers->insert(k * 13, {});
        names->insert(QString::number(k), k);
        set->insert(quint64(k) << 33);
    }
    for (int k = 1; k < i * i; k += 3)
        names->remove(QString::number(k));
    keep_hash(*numbers);
    keep_hash(*names);
    keep_hash(*reinterpret_cast<QHash<quint64, QHashDummyValue> *>(set));
}

} // namespace

int main(int argc, char **argv)
{
    char byte;
    setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
    const int rounds = argc > 1 ? atoi(argv[1]) : many;
    for (int i = 0; i < rounds; i++) {
        make_arrays(i);
        make_hashes(i);
        make_maps(i);
        make_array_decoys();
        make_hash_decoys();
        make_map_decoys();
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
