// SPDX-License-Identifier: MIT
// Holds dicts as redis has them, hash tables as valkey has them, strings and more, and chunks that differ from these in one thing. Prints lines "KIND ADDRESS" (0x...),
// of kind "decoy" for the latter, then "ready", and waits for the end of its input.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 20, PLACES = 16 };

struct entry {
    void *key, *value;
    struct entry *next;
};
struct dict {
    const void *type;
    struct entry **table[2];
    uint64_t used[2];
    int64_t moved;
    int16_t paused;
    int8_t bits[2];
};

static uint64_t work(const void *unused)
{
    return (uint64_t)(uintptr_t)unused;
}

static void *const functions[8] = {(void *)work, NULL, NULL, (void *)work, (void *)work, NULL, NULL, NULL};
static void *const others[8] = {(void *)work, (void *)functions, NULL, (void *)work, (void *)work, NULL, NULL, NULL};
void *kept[100000];
static size_t kept_count;

static void *keep(const char *kind, size_t size)
{
    void *made = calloc(1, size);
    printf("%s\t%p\n", kind, made);
    kept[kept_count++] = made;
    return made;
}

// A string's header has a byte for a short text; else two of length and room, and the kind. Returns the text.
static char *make_text(const char *kind, size_t length, size_t room, char end)
{
    int large = room > 255;
    size_t header = length < 20 ? 1 : large ? 5 : 3;
    unsigned char *made = keep(kind, header + room + 1);
    if (header == 1) {
        made[0] = (unsigned char)(length << 3);
    } else {
        uint16_t numbers[2] = {(uint16_t)length, (uint16_t)room};
        uint8_t small[2] = {(uint8_t)length, (uint8_t)room};
        memcpy(made, large ? (void *)numbers : (void *)small, header - 1);
        made[header - 1] = large ? 2 : 1;
    }
    memset(made + header, 'a', length);
    made[header + length] = (unsigned char)end;
    return (char *)made + header;
}

static uint64_t *make_object(const char *kind, unsigned type, unsigned encoding, const void *contents)
{
    uint64_t *made = keep(kind, 16);
    made[0] = UINT64_C(1) << 32 | 0xabcdef00 | type | encoding << 4;
    made[1] = (uint64_t)(uintptr_t)contents;
    return made;
}

static void *value_of(const char *kind, int i)
{
    uint32_t *numbers;
    switch (i % 4) {
    case 0:
        return make_object(kind, 0, 1, (void *)(intptr_t)i);
    case 1:
        numbers = keep(kind[0] == 'd' ? "decoy" : "intset", 8 + 4 * 3);
        memcpy(numbers, (uint32_t[]){4, 3, (uint32_t)-7, 0, 70000}, 20);
        return make_object(kind, 2, 6, numbers);
    case 2:
        return make_object(kind, 0, 0, make_text("sds", 100, 100, 0));
    default:
        return make_object(kind, 0, 0, make_text("sds", 40, 300, 0));
    }
}

// A dict of which `more` entries are missing. `values`: the kind of its values.
static struct dict *make(const char *const kinds[4], const void *type, uint64_t more, size_t places, const char *values)
{
    struct dict *d = keep(kinds[0], sizeof *d);
    *d = (struct dict){.type = type, .moved = -1, .bits = {4, -1}, .used = {MANY + more, 0}};
    d->table[0] = keep(kinds[1], places * sizeof(struct entry *));
    for (int i = 0; i < MANY; i++) {
        struct entry *entry = keep(kinds[2], sizeof *entry);
        *entry = (struct entry){make_text(kinds[3], 5 + i % 10, 5 + i % 10, 0), value_of(values, i),
                                d->table[0][i % PLACES]};
        d->table[0][i % PLACES] = entry;
    }
    return d;
}

// A dict of keys alone, of which `more` are missing. A bucket with one key leads to this key, others to entries without a value.
// Both pointers have tags: keys are odd, and an entry's address is `tag` more than it is (2 in redis 7.2, 4 in 8.0).
static struct dict *make_set(const char *const kinds[4], const void *type, uint64_t more, uintptr_t tag)
{
    struct dict *d = keep(kinds[0], sizeof *d + 100);
    *d = (struct dict){.type = type, .moved = -1, .bits = {4, -1}, .used = {MANY + more, 0}};
    char **table = keep(kinds[1], PLACES * sizeof *table);
    for (int i = 0; i < MANY; i++) {
        char *text = make_text(kinds[3], 5 + i % 15, 5 + i % 15, 0), **place = &table[i % (tag > 0 ? PLACES - 6 : 5)];
        if (*place == NULL) {
            *place = text;
            continue;
        }
        char **entry = keep(kinds[2], 2 * sizeof *entry);
        entry[0] = text;
        entry[1] = *place;
        *place = (char *)entry + tag;
    }
    d->table[0] = (void *)table;
    return d;
}

static void make_sets(void)
{
    static const char *const true_kinds[4] = {"dict", "dict table", "dict entry", "sds"};
    static const char *const false_kinds[4] = {"decoy", "decoy", "decoy", "decoy"};
    // As in the array of a database's dicts, whose type is a part of it.
    void **copied = keep("decoy", 200), **wrong = keep("decoy", 200);
    memcpy(copied + 1, functions, sizeof functions);
    memcpy(wrong + 1, others, sizeof others);
    for (int i = 0; i < MANY; i++)
        make_set(true_kinds, i % 2 ? functions : (void *)(copied + 1), 0, i % 4 < 2 ? 2 : 4);
    make(true_kinds, copied + 1, 0, PLACES, "object");
    make(false_kinds, wrong + 1, 0, PLACES, "decoy");
    make_set(false_kinds, functions, 1, 4);            // a key too few
    make_set(false_kinds, functions, (uint64_t)-1, 4); // too many
    make_set(false_kinds, functions, 0, 0); // entries without a tag: with four keys in a bucket, as in no release
    make_set(false_kinds, wrong + 1, 0, 4);
}

static void *plain;

static void make_dicts(void)
{
    static const char *const true_kinds[4] = {"dict", "dict table", "dict entry", "sds"};
    static const char *const false_kinds[4] = {"decoy", "decoy", "decoy", "decoy"};
    for (int i = 0; i < MANY; i++)
        make(true_kinds, functions, 0, PLACES, "object");
    make(false_kinds, functions, 1, PLACES, "decoy");            // an entry too few
    make(false_kinds, functions, (uint64_t)-1, PLACES, "decoy"); // too many
    make(false_kinds, functions, 0, 4 * PLACES, "decoy");        // a table too large
    make(false_kinds, others, 0, PLACES, "decoy");               // not only functions
    struct dict *moved = make(false_kinds, functions, 0, PLACES, "decoy");
    moved->moved = 3; // into which table?
    struct dict *circle = make(false_kinds, functions, 0, PLACES, "decoy");
    circle->table[0][0]->next->next = circle->table[0][0]; // without an end
    struct dict *mixed = make(true_kinds, functions, 0, PLACES, "decoy");
    mixed->table[0][5]->value = plain = keep("decoy", 24); // one is no object
    memset(plain, 0xff, 24);
}

struct hash_table {
    const void *type;
    int64_t moved;
    unsigned char *table[2];
    uint64_t used[2];
    int8_t bits[2];
    int16_t paused[2];
    uint64_t children[2];
    void *behind;
};
static void *const of_objects[8] = {(void *)work, (void *)work, (void *)work, NULL, (void *)work, NULL, NULL, NULL};
static void *const of_wrong[8] = {(void *)work, (void *)work, (void *)functions, NULL, (void *)work, NULL, NULL, NULL};
static void *const of_keys[8] = {NULL, (void *)work, (void *)work, NULL, (void *)work, NULL, NULL, NULL};

// An object of valkey's with its key, before which may be a time; behind it is the value, or there is a pointer instead.
static char *make_keyed(const char *kind, int i)
{
    unsigned char *made = keep(kind, 40), *at = made + 8;
    uint32_t flags = 1 << 3 | 2 | (i % 2 ? 4 : 0) | (i % 3 ? 1 : 0);
    made[0] = i % 2 ? 8 << 4 : 11 << 4;
    memcpy(made + 4, &flags, 4);
    at += (i % 2 ? 0 : 8) + (i % 3 ? 8 : 0);
    memcpy(at,
           "\x01\x28"
           "key 1\0",
           8);
    return (char *)made;
}

// Puts an entry into a bucket.
static void put(unsigned char *bucket, int place, const void *entry)
{
    bucket[0] |= (unsigned char)(2 << place);
    memcpy(bucket + 8 + 8 * place, &entry, 8);
}

// A hash table of four buckets with five entries each, but for the first, which has six and a child with another. Of the entries `more`
// are missing, and of the children `children`. `keys`: its entries are strings, and nothing more.
static struct hash_table *make_hash_table(const char *const kinds[3], const void *type, int keys, uint64_t more,
                                          uint64_t children)
{
    struct hash_table *h = keep(kinds[0], sizeof *h);
    *h = (struct hash_table){type,           -1,  {keep(kinds[1], 4 * 64), NULL}, {22 + more, 0}, {2, -1}, {0},
                             {1 + children}, NULL};
    unsigned char *child = keep(kinds[1], 64);
    for (int i = 0; i < 22; i++) {
        void *entry = keys ? make_text(kinds[2], 5 + (size_t)i % 10, 5 + (size_t)i % 10, 0) : make_keyed(kinds[2], i);
        if (i == 21)
            put(child, 3, entry);
        else
            put(h->table[0] + 64 * (i < 6 ? 0 : (i - 6) / 5 + 1), i < 6 ? i : (i - 6) % 5, entry);
    }
    h->table[0][0] |= 1;
    memcpy(h->table[0] + 56, &child, 8);
    return h;
}

static void make_hash_tables(void)
{
    static const char *const true_keys[3] = {"hash table", "buckets", "sds"};
    static const char *const true_objects[3] = {"hash table", "buckets", "keyed"};
    static const char *const no_objects[3] = {"hash table", "buckets", "decoy"};
    static const char *const false_kinds[3] = {"decoy", "decoy", "decoy"};
    for (int i = 0; i < MANY; i++) {
        make_hash_table(true_keys, of_keys, 1, 0, 0);
        make_hash_table(true_objects, of_objects, 0, 0, 0);
    }
    make_hash_table(false_kinds, of_objects, 0, 1, 0);            // an entry too few
    make_hash_table(false_kinds, of_objects, 0, (uint64_t)-1, 0); // too many
    make_hash_table(false_kinds, of_objects, 0, 0, 1);            // a child too few
    make_hash_table(false_kinds, of_objects, 0, 0, (uint64_t)-1);
    make_hash_table(false_kinds, of_wrong, 0, 0, 0);              // not only functions
    make_hash_table(false_kinds, of_objects, 0, 0, 0)->moved = 1; // into which table?
    make_hash_table(false_kinds, of_objects, 0, 0, 0)->bits[0] = 3;
    make_hash_table(false_kinds, of_objects, 0, (uint64_t)-10, 0)->bits[0] = 1; // a table too large for two buckets
    make_hash_table(false_kinds, of_objects, 0, 1, 0)->table[0][0] |= 1 << 7;   // an entry where the child is
    unsigned char *place = make_hash_table(no_objects, of_objects, 0, 0, 0)->table[0] + 64 + 8;
    memcpy(place, &(char *){keep("decoy", 40)}, 8); // one is no object
}

// A listpack with one text, and words beside a pointer to it as if it were bytes of that length and capacity, or an array: they are left
// over.
static void make_large_pack(int array)
{
    enum { TEXT = 280, ALL = 6 + 2 + TEXT + 2 + 1 };
    static const unsigned char head[] = {ALL & 0xff, ALL >> 8, 0, 0, 1, 0, 0xe0 | TEXT >> 8, TEXT & 0xff};
    static const unsigned char end[] = {(TEXT + 2) >> 7, ((TEXT + 2) & 0x7f) | 0x80, 0xff};
    unsigned char *pack = keep("listpack", ALL);
    memcpy(pack, head, sizeof head);
    memset(pack + sizeof head, 'y', TEXT);
    memcpy(pack + sizeof head + TEXT, end, sizeof end);
    uint64_t start = (uint64_t)(uintptr_t)pack, before = array ? start : 0;
    memcpy(keep("decoy", 24), (uint64_t[]){start, before + TEXT, before + ALL}, 24);
}

static void make_others(void)
{
    make_large_pack(0);
    make_large_pack(1);
    const char **texts = keep("decoy", 100 * sizeof *texts);
    for (unsigned i = 0; i < MANY; i++) {
        *texts++ = make_text("decoy", 50, 50, 'x'); // no zero at its end
        char *text = make_text("decoy", 50, 200, 0);
        text[-2] = (char)(i % 2 ? 240 : 100); // too much room, or too little
        *texts++ = text;
        *texts++ = make_text("sds", 200 + i * 50, 300 + i * 50, 0);
        make_text("decoy", 50, 50, 0); // nothing leads to its text
        // Bytes of all, how many elements, each with its length behind; and the end.
        static const unsigned char bytes[] = {14, 0, 0, 0, 2, 0, 0x82, 'a', 'b', 3, 5, 1, 0, 0xff};
        static const unsigned char pack[] = {13, 0, 0, 0, 2, 0, 0x82, 'a', 'b', 3, 5, 1, 0xff};
        memcpy(keep("listpack", 13), pack, 13);
        unsigned char *wrong = keep("decoy", 13);
        memcpy(wrong, pack, 13);
        static const unsigned char places[] = {0, 4, 6, 9, 11, 12};
        wrong[places[i % 6]] += 30;
        memcpy(keep("decoy", 14), bytes, 14);
    }
}

int main(void)
{
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    make_dicts();
    make_sets();
    make_hash_tables();
    make_others();
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 && kept_count > 0 ? 0 : 1;
}
