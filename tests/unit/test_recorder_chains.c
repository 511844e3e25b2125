// SPDX-License-Identifier: MIT
// What is added to chains is found, over all their levels; and threads that add the same at the same time get the same entry.
#include "recorder/chains.h"
#include "support/check.h"
#include "support/together.h"

enum { KEYS = 1 << 15, THREADS = 4, FIRST_BITS = 6, LEVELS = 4, WIDE_BITS = 12 };

struct entry {
    uint32_t key, next;
};

static struct entry entries[THREADS * KEYS + 1];
static _Atomic uint32_t heads[1 << 17];
static _Atomic uint32_t used;
static struct as_recorder_chains chains;

static bool is_key(uint32_t id, const void *wanted)
{
    return entries[id].key == *(const uint32_t *)wanted;
}

static uint32_t hash_of(uint32_t key)
{
    return key * UINT32_C(0x9e3779b1) >> 7;
}

static void begin(unsigned bits, unsigned levels)
{
    CHECK(as_recorder_heads_below(bits, levels) <= sizeof heads / sizeof *heads);
    memset(heads, 0, sizeof heads);
    memset(entries, 0, sizeof entries);
    atomic_store(&used, 1);
    chains = (struct as_recorder_chains){
        .heads = heads, .bits = bits, .levels = levels, .next = (char *)&entries->next, .entry = sizeof *entries};
}

static uint32_t find(struct as_recorder_chain *chain, uint32_t key)
{
    *chain = (struct as_recorder_chain){.used = atomic_load(&used), .hash = hash_of(key)};
    return as_recorder_chains_find(&chains, chain, is_key, &key);
}

static uint32_t find_or_add(uint32_t key)
{
    struct as_recorder_chain chain;
    uint32_t id = find(&chain, key);
    if (id)
        return id;
    id = atomic_fetch_add(&used, 1);
    entries[id].key = key;
    return as_recorder_chains_add(&chains, &chain, id, is_key, &key);
}

static void test_levels(void)
{
    struct as_recorder_chain chain;
    begin(FIRST_BITS, LEVELS);
    for (uint32_t key = 1; key < KEYS; key++) {
        CHECK_EQUAL(find(&chain, key), 0);
        CHECK_EQUAL(find_or_add(key), key);
        CHECK_EQUAL(find(&chain, key / 2 + 1), key / 2 + 1); // in a level below, mostly
    }
    for (uint32_t key = 1; key < KEYS; key++)
        CHECK_EQUAL(find(&chain, key), key);
    CHECK_EQUAL(find(&chain, KEYS), 0);
}

// Between one thread's search and what it adds, another has added the same.
static void test_meanwhile(void)
{
    struct as_recorder_chain chain;
    uint32_t key = 7;
    begin(FIRST_BITS, LEVELS);
    CHECK_EQUAL(find(&chain, key), 0);
    uint32_t other = find_or_add(key), own = atomic_fetch_add(&used, 1);
    entries[own].key = key;
    CHECK_EQUAL(as_recorder_chains_add(&chains, &chain, own, is_key, &key), other);
}

// An entry that nobody else can be adding is added without a snapshot of the others.
static void test_all_seen(void)
{
    begin(FIRST_BITS, LEVELS);
    for (uint32_t id = 1; id <= 2; id++) {
        struct as_recorder_chain chain = {.used = id, .hash = hash_of(7), .seen = AS_RECORDER_ALL_SEEN};
        entries[id].key = 7;
        CHECK_EQUAL(as_recorder_chains_add(&chains, &chain, id, is_key, &entries[id].key), id);
    }
}

static uint32_t ids[THREADS][KEYS];

// The same keys, in the same order: all threads are at the same ones, each a little later or earlier.
static void *add_all(void *own)
{
    for (uint32_t key = 1; key < KEYS; key++)
        ((uint32_t *)own)[key] = find_or_add(key);
    return NULL;
}

static void test_threads(void)
{
    void *own[THREADS];
    begin(WIDE_BITS, 1); // where there is one level, nothing is there twice
    for (size_t i = 0; i < THREADS; i++)
        own[i] = ids[i];
    in_threads(THREADS, add_all, own);
    for (uint32_t key = 1; key < KEYS; key++)
        for (size_t i = 0; i < THREADS; i++) {
            CHECK_EQUAL(ids[i][key], ids[0][key]);
            CHECK_EQUAL(entries[ids[i][key]].key, key);
        }
}

int main(void)
{
    test_levels();
    test_meanwhile();
    test_all_seen();
    test_threads();
    return 0;
}
