// SPDX-License-Identifier: MIT
#include "graph/vtables.h"
#include "base/memory.h"
#include "libc/constants.h"

#include <string.h>

enum {
    SLOT_BITS = 14, // of what a thread has asked for
    SLOTS = 1 << SLOT_BITS,
    TRIES = 8,
    BUCKET_BITS = 17, // of the list: twice its room
    BUCKETS = 1 << BUCKET_BITS,
    MOST_TRIES = 256, // words may be chosen so that all fall into one place
    WORD = sizeof(uint64_t),
    LONGEST_NAME = 1024,
};

// Vtables lie in .data.rel.ro, or in .rodata of a program that is not relocated.
static bool may_hold_vtables(const struct as_mapping *m)
{
    return m->kind == AS_MAP_FILE && !(m->prot & (AS_PROT_EXEC | AS_PROT_SHARED)) && (m->prot & AS_PROT_READ);
}

bool as_vtables_open(struct as_vtables *v, struct as_target *t, uint32_t nodes, struct as_error *err)
{
    *v = (struct as_vtables){.target = t, .nodes = nodes};
    pthread_mutex_init(&v->lock, NULL);
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        struct as_range *data = may_hold_vtables(m) ? as_vec_add(&v->data, err) : NULL;
        if (data)
            *data = (struct as_range){m->start, m->end};
        else if (may_hold_vtables(m))
            return false;
    }
    if (v->data.count > 0) {
        v->low = v->data.items[0].start;
        v->size = v->data.items[v->data.count - 1].end - v->low;
    }
    v->begins = as_memory_map_large(((size_t)nodes + 1) * sizeof *v->begins, "the types of chunks", err);
    v->buckets = as_memory_map(BUCKETS * sizeof *v->buckets, "the types of chunks", err);
    v->list.count = as_vec_reserve(&v->list, 1, err);
    return v->begins && v->buckets && v->list.count > 0;
}

void as_vtables_close(struct as_vtables *v)
{
    as_memory_unmap(v->begins, ((size_t)v->nodes + 1) * sizeof *v->begins);
    as_memory_unmap(v->buckets, BUCKETS * sizeof *v->buckets);
    AS_FREE_VECS(v, data, list, names);
    pthread_mutex_destroy(&v->lock);
}

static bool is_data(const struct as_vtables *v, uint64_t address)
{
    size_t at = AS_PARTITION_POINT(0, v->data.count, i, v->data.items[i].end <= address);
    return at < v->data.count && address >= v->data.items[at].start;
}

static size_t hash(uint64_t word, unsigned bits)
{
    return (size_t)((word * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits));
}

// The index of a word in the list; 0: it is no address of data, or there is no room. Under the lock.
static uint32_t intern(struct as_vtables *v, uint64_t word)
{
    for (size_t i = 0; i < MOST_TRIES; i++) {
        uint32_t *bucket = &v->buckets[(hash(word, BUCKET_BITS) + i) % BUCKETS];
        if (*bucket != 0 && v->list.items[*bucket].word == word)
            return *bucket;
        if (*bucket != 0)
            continue;
        struct as_vtable *item = v->list.count <= AS_MOST_VTABLES ? as_vec_add(&v->list, NULL) : NULL;
        if (!item)
            return 0;
        item->word = word;
        *bucket = (uint32_t)(v->list.count - 1);
        return *bucket;
    }
    return 0;
}

static uint32_t find_vtable(struct as_vtables *v, uint64_t word)
{
    if (word % WORD != 0 || !is_data(v, word))
        return 0;
    pthread_mutex_lock(&v->lock);
    uint32_t index = intern(v, word);
    pthread_mutex_unlock(&v->lock);
    return index;
}

uint32_t as_vtable_find(struct as_vtable_words *words, struct as_vtables *v, uint64_t word)
{
    if (!words->slots)
        words->slots = as_memory_map(SLOTS * sizeof *words->slots, "types", NULL);
    if (!words->slots)
        return 0;
    size_t at = hash(word, SLOT_BITS);
    for (size_t i = 0;; i++) {
        struct as_vtable_known *known = &words->slots[(at + i) % SLOTS];
        if (known->word == word)
            return known->index;
        if (known->word != 0 && i + 1 < TRIES)
            continue;
        *known = (struct as_vtable_known){word, find_vtable(v, word)}; // the last place is taken anew each time
        return known->index;
    }
}

void as_vtable_words_free(struct as_vtable_words *words)
{
    as_memory_unmap(words->slots, SLOTS * sizeof *words->slots);
    words->slots = NULL;
}

// A mangled name of a class: letters, digits and underscores, as the compilers make it; local classes have a '*' before.
static bool read_name(struct as_constants *constants, uint64_t address, char name[LONGEST_NAME])
{
    size_t got = as_constants_read(constants, address, name, LONGEST_NAME);
    size_t length = strnlen(name, got);
    if (length < 2 || length == got)
        return false;
    if (name[0] == '*')
        memmove(name, name + 1, length--);
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' ||
              c == '$'))
            return false;
    }
    // A class's own name has a length before it; a nested or local one begins with N, Z or S (std).
    return (name[0] >= '1' && name[0] <= '9') || name[0] == 'N' || name[0] == 'Z' || name[0] == 'S';
}

static void prove_vtables(struct as_vtables *v, struct as_constants *constants, struct as_vtable *vtable)
{
    struct as_target *t = v->target;
    uint64_t words[4]; // offset to top, type_info; the first functions
    char name[LONGEST_NAME];
    uint64_t info[2]; // type_info: its own vtable, the name
    // A class that has only one virtual function has one; that of a pure virtual is __cxa_pure_virtual.
    if (as_constants_read(constants, vtable->word - 2 * WORD, words, 3 * WORD) != 3 * WORD || words[0] != 0 ||
        !as_target_is_code(t, words[2]))
        return;
    if (words[1] == 0) { // compiled without RTTI
        vtable->proven = true;
        return;
    }
    if (words[1] % WORD != 0 || !is_data(v, words[1]) ||
        as_constants_read(constants, words[1], info, sizeof info) != sizeof info || !is_data(v, info[0]) ||
        !is_data(v, info[1]) || !read_name(constants, info[1], name))
        return;
    vtable->proven = true;
    vtable->name = as_strings_add(&v->names, name, sizeof name);
}

void as_vtables_prove(struct as_vtables *v, struct as_modules *modules)
{
    struct as_constants constants;
    as_constants_begin(&constants, modules);
    for (size_t i = 1; i < v->list.count; i++)
        prove_vtables(v, &constants, &v->list.items[i]);
    as_constants_end(&constants);
}
