// SPDX-License-Identifier: MIT
// Holds dicts as redis 8.2 and later has them, whose keys hold more than their text, and such that differ from these in one thing. Prints
// lines "KIND ADDRESS" (0x...), of kind "decoy" for the latter and for sorted sets' nodes, then "ready", and waits for the end of its input.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 20, PLACES = 16, BUCKETS = 10, RAW = 0, NUMBERS = 0x62, INTEGER = 0x10, EMBEDDED = 0x80 };
enum damage { INTACT, HEADER, ZERO, REFERENCES, COUNT, POINTER, SIZE, LONGER, DAMAGES };

struct late_dict {
    const void *type;
    void **table[2];
    uint64_t used[2];
    int64_t moved;
    uint64_t rest;
};
struct kinds {
    const char *dict, *table, *entry, *key, *first; // `first`: of the keys to which the table or an entry leads itself
};
static const struct kinds all_decoys = {"decoy", "decoy", "decoy", "decoy", "decoy"};

static uint64_t work(const void *unused)
{
    return (uint64_t)(uintptr_t)unused;
}
static void *const functions[8] = {(void *)work, NULL, NULL, (void *)work, (void *)work, NULL, NULL, NULL};
void *kept[100000];
static size_t kept_count;

static unsigned char *keep(const char *kind, size_t size)
{
    void *made = calloc(1, size);
    printf("%s\t%p\n", kind, made);
    kept[kept_count++] = made;
    return made;
}

// Writes a string with the header of that kind, and returns what is behind it. The text begins at *text.
static unsigned char *put_text(unsigned char *at, unsigned kind, unsigned flags, const char *of, unsigned char **text)
{
    size_t length = strlen(of), size = kind == 0 ? 0 : (size_t)1 << (kind - 1);
    for (int i = 0; i < 2 && kind > 0; i++, at += size)
        memcpy(at, &length, size);
    *at++ = (unsigned char)(kind == 0 ? length << 3 : kind | flags << 3);
    *text = at;
    memcpy(at, of, length + 1);
    return at + length + 1;
}

static char *make_text(const char *kind, unsigned of, const char *text)
{
    unsigned char *start;
    put_text(keep(kind, 2 * (of == 0 ? 0 : (size_t)1 << (of - 1)) + 1 + strlen(text) + 1), of, 0, text, &start);
    return (char *)start;
}

static const char *repeat(char letter, size_t count)
{
    static char text[2000];
    memset(text, letter, count);
    text[count] = 0;
    return text;
}

// What an object leads to. A long string has its name in any case, the others if the object has.
static const void *contents_of(unsigned what, int i, int named)
{
    static const uint32_t numbers[] = {4, 3, (uint32_t)-7, 0, 70000};
    if (what == RAW)
        return i % 8 < 4 ? make_text(named ? "sds" : "decoy", 0, repeat('v', 20))
                         : make_text("sds", 2, repeat('v', 300));
    if (what == NUMBERS)
        return memcpy(keep(named ? "intset" : "decoy", sizeof numbers), numbers, sizeof numbers);
    return NULL;
}

// An object with `before` numbers, its key, and perhaps its value. `late`: as since 8.6. Returns where the object is.
static unsigned char *make_keyed(const char *kind, unsigned what, int i, unsigned before, int late, enum damage damage)
{
    char key[40];
    unsigned char *text, *value = NULL;
    uint64_t head = what | (late ? UINT64_C(1) << 8 | UINT64_C(1) << 31 | UINT64_C(0x123456) << 40
                                 : UINT64_C(0x123456) << 8 | UINT64_C(1) << 32 | UINT64_C(1) << 34);
    snprintf(key, sizeof key, "the key of number %d", i + 1000);
    size_t size = 8 * before + 16 + 1 + 1 + strlen(key) + 1 + (what == EMBEDDED ? 3 + 5 + 1 : 0);
    unsigned char *object = keep(kind, size + (damage >= SIZE ? 64 : 0)) + 8 * before;
    memset(object - 8 * before, 0xff, 8 * before);
    head |= late ? (uint64_t)((1 << before) - 1) << 32 : (uint64_t)before << 33;
    if (damage == REFERENCES)
        head &= late ? ~(UINT64_C(0x7fffff) << 8) : UINT64_C(0x3ffffffff);
    if (damage == COUNT)
        head ^= late ? UINT64_C(1) << 39 : UINT64_C(1) << 33;
    object[16] = damage == HEADER ? 3 : 1;
    unsigned char *end = put_text(object + 17, 0, 0, key, &text);
    if (damage == ZERO)
        end[-1] = 'x';
    if (what == EMBEDDED)
        put_text(end, 1, 0, "value", &value);
    const void *leads =
        what == EMBEDDED ? value + (damage == POINTER) : contents_of(what, i, strcmp(kind, "keyed") == 0);
    memcpy(object, &head, 8);
    memcpy(object + 8, &leads, 8);
    return object;
}

// A dict of keys alone, of which `more` are missing. `late`: as since 8.6. A table, or the last entry, leads to an even key with a tag.
static struct late_dict *make_dict(const struct kinds *k, void *const *keys, int count, int late, uint64_t more)
{
    struct late_dict *d = (void *)keep(k->dict, sizeof *d);
    void **table = (void *)keep(k->table, PLACES * sizeof *table);
    *d = (struct late_dict){
        functions, {table, NULL}, {(uint64_t)count + more, 0}, -1, UINT64_C(0xff04) << (late ? 32 : 16)};
    for (int i = 0; i < count; i++) {
        void **place = &table[i % BUCKETS];
        uintptr_t tag = (uintptr_t)keys[i] & 1 ? 0 : 2;
        if (*place) {
            void **entry = (void *)keep(k->entry, 2 * sizeof *entry);
            entry[0] = *place;
            entry[1] = keys[i];
            *place = entry;
        } else {
            *place = (char *)keys[i] + tag;
        }
    }
    return d;
}

// `damage`: of one of its objects.
static struct late_dict *make_database(const struct kinds *k, int late, uint64_t more, enum damage damage)
{
    static const unsigned whats[] = {RAW, NUMBERS, INTEGER, EMBEDDED};
    void *keys[MANY];
    for (int i = 0; i < MANY; i++) {
        enum damage here =
            i == (damage == LONGER ? 12 : 15) ? damage : INTACT; // with a string of its own, or an embedded one
        unsigned before = (unsigned)i / 4 % (late ? 3 : 2);
        keys[i] = make_keyed(i < BUCKETS ? k->first : k->key, whats[i % 4], i, before, late, here);
    }
    return make_dict(k, keys, MANY, late, more);
}

// A dict of keys alone, of which those that a table or an entry leads to itself have been removed. In the rest of the chunks of its entries are
// pointers that were there before.
static void make_removed(const struct kinds *k, int late)
{
    struct late_dict *d = make_database(k, late, (uint64_t)-BUCKETS, INTACT);
    for (int i = 0; i < BUCKETS; i++) {
        void **entry = d->table[0][i];
        entry[0] = NULL;
        entry[2] = d->table[0];
    }
}

static void make_databases(int late)
{
    static const struct kinds true_kinds = {"dict", "dict table", "dict entry", "keyed", "keyed"};
    static const struct kinds removed = {"dict", "dict table", "dict entry", "keyed", "decoy"};
    static const struct kinds no_objects = {"dict", "dict table", "dict entry", "decoy", "decoy"};
    for (int i = 0; i < MANY; i++)
        make_database(&true_kinds, late, 0, INTACT);
    make_removed(&removed, late);
    for (enum damage damage = HEADER; damage < DAMAGES; damage++)
        make_database(&no_objects, late, 0, damage);
    make_database(&all_decoys, late, 1, INTACT);
    make_database(&all_decoys, late, (uint64_t)-1, INTACT);
    make_database(&all_decoys, late, 0, INTACT)->moved = 3;
    struct late_dict *circle = make_database(&all_decoys, late, 0, INTACT);
    void **entry = circle->table[0][0];
    entry[0] = entry;
    struct late_dict *plain = make_database(&all_decoys, late, 0, INTACT);
    entry = plain->table[0][0];
    entry[0] = (char *)entry[0] - 2; // a key without a tag is no entry
}

// A hash's field, with its value or a pointer to it; before them may be when the field ends.
static void *make_field(const char *kind, int i, int damaged)
{
    char field[40];
    unsigned char *text, *value;
    unsigned kind_of = i % 4 == 0 ? 0 : 1, flags = (unsigned)i % 4;
    snprintf(field, sizeof field, "field %d of a hash, which has many", i);
    if (kind_of == 0)
        field[20] = 0;
    size_t before = (flags & 1 ? 16 : 0) + (flags & 2 ? 8 : 0), header = kind_of == 0 ? 1 : 3;
    const char *of = repeat('w', 70);
    size_t size = before + header + strlen(field) + 1 + (flags & 2 ? 0 : 3 + strlen(of) + 1);
    unsigned char *made = keep(kind, size), *end = put_text(made + before, kind_of, flags, field, &text);
    if (flags & 2)
        memcpy(made + before - 8, &(char *){make_text("sds", 2, repeat('l', 300))}, 8);
    else
        *(put_text(end, 1, 0, of, &value) - 1) = damaged ? 'x' : 0;
    return text;
}

static void make_hash(const struct kinds *k, int late, int damaged)
{
    void *keys[MANY];
    for (int i = 0; i < MANY; i++)
        keys[i] = make_field(k->key, i, damaged && i == 13);
    make_dict(k, keys, MANY, late, 0);
}

static void make_set(const struct kinds *k, int count, int late, int behind)
{
    static const struct kinds small = {"dict", "dict table", "dict entry", "decoy", "decoy"};
    void *keys[MANY];
    for (int i = 0; i < count; i++) {
        keys[i] = make_text((behind ? &small : k)->key, i % 3 || behind ? 0 : 1,
                            repeat((char)('a' + i), behind ? 3 : (size_t)i + 5));
        // The rest of a small chunk, as if it were a value.
        if (behind)
            memcpy((char *)keys[i] + 4, "\2\2\1zz", 6);
    }
    make_dict(k, keys, count, late, 0);
}

// A sorted set's dict leads to its nodes: score, the node before, levels, and behind these the text.
static void make_sorted(const struct kinds *k, int late, int damaged)
{
    void *keys[MANY];
    unsigned char *text;
    for (int i = 0; i < MANY; i++) {
        size_t levels = 1 + (size_t)i % 3, at = 16 + 16 * levels;
        unsigned char *node = keep("decoy", at + 1 + 15 + 1);
        put_text(node + at, 0, 0, "the element it'", &text);
        uint64_t about = (at + 1) | levels << 16;
        memcpy(node + 24, &(uint64_t){about + (damaged && i == 7)}, 8);
        keys[i] = node;
    }
    make_dict(k, keys, MANY, late, 0);
}

// With values, which are strings.
static void make_values(int late)
{
    struct late_dict *d = (void *)keep("dict", sizeof *d);
    void **table = (void *)keep("dict table", PLACES * sizeof *table);
    *d = (struct late_dict){functions, {table, NULL}, {MANY, 0}, -1, UINT64_C(0xff04) << (late ? 32 : 16)};
    for (int i = 0; i < MANY; i++) {
        void **entry = (void *)keep("dict entry", 3 * sizeof *entry);
        entry[0] = table[i % BUCKETS];
        entry[1] = make_text("sds", 0, repeat('k', 10 + (size_t)i));
        entry[2] = make_text("sds", i % 2, repeat('v', 10 + (size_t)i));
        table[i % BUCKETS] = entry;
    }
}

int main(void)
{
    static const struct kinds hash = {"dict", "dict table", "dict entry", "hash entry", "hash entry"};
    static const struct kinds set = {"dict", "dict table", "dict entry", "sds", "sds"};
    static const struct kinds no_keys = {"dict", "dict table", "dict entry", "decoy", "decoy"};
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (int late = 0; late < 2; late++) {
        make_databases(late);
        for (int i = 0; i < MANY; i++) {
            make_hash(&hash, late, 0);
            make_set(&set, MANY, late, 0);
            make_values(late);
        }
        make_hash(&no_keys, late, 1);
        make_set(&no_keys, 3, late, 1);
        make_sorted(&no_keys, late, 0);
        make_sorted(&no_keys, late, 1);
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 && kept_count > 0 ? 0 : 1;
}
