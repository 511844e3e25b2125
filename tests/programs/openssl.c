// SPDX-License-Identifier: MIT
// Holds tables and stacks of libcrypto, and chunks that are nearly such structures. Prints lines "KIND ADDRESS" (0x...), of kind "decoy" for the
// latter, then "ready", and waits for the end of its input. An argument: how many
// rounds; the later ones are the larger.
#include <openssl/conf.h>
#include <openssl/crypto.h>
#include <openssl/lhash.h>
#include <openssl/stack.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 20, WORDS = 12 };

static char objects[20000][16];

static void *keep(const char *kind, void *chunk)
{
    printf("%s\t%p\n", kind, chunk);
    return chunk;
}

// While `telling`, each chunk of 24 bytes is a node of a table.
static int telling;

static void *take(size_t size, const char *file, int line)
{
    void *chunk = malloc(size);
    (void)file, (void)line;
    return telling && size == 3 * sizeof(void *) ? keep("LHASH node", chunk) : chunk;
}

static void *grow(void *chunk, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return realloc(chunk, size);
}

static void drop(void *chunk, const char *file, int line)
{
    (void)file, (void)line;
    free(chunk);
}

static unsigned long hash(const void *object)
{
    return (unsigned long)(uintptr_t)object / 16 * 2654435761u;
}

static int compare(const void *a, const void *b)
{
    return a != b;
}

static int compare_items(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(void *));
}

// A copy of a chunk.
static void *copy(const char *kind, const void *chunk, size_t size)
{
    return memcpy(keep(kind, malloc(size)), chunk, size);
}

static OPENSSL_LHASH *make_table(unsigned count)
{
    OPENSSL_LHASH *table = OPENSSL_LH_new(hash, compare);
    telling = 1;
    for (unsigned i = 0; i < count; i++)
        OPENSSL_LH_insert(table, objects[i]);
    telling = 0;
    keep("LHASH", table);
    keep("LHASH table", *(void **)table);
    return table;
}

// Growing and shrinking, without a word of the nodes: those that are left are not known before.
static void shrink_table(unsigned count)
{
    OPENSSL_LHASH *table = OPENSSL_LH_new(hash, compare);
    for (unsigned i = 0; i < count; i++)
        OPENSSL_LH_insert(table, objects[i]);
    for (unsigned i = 0; i < count; i++)
        if (i % 5 != 0)
            OPENSSL_LH_delete(table, objects[i]);
    keep("LHASH", table);
    keep("LHASH table", *(void **)table);
}

static void make_stack(unsigned count, int (*function)(const void *, const void *))
{
    OPENSSL_STACK *stack = OPENSSL_sk_new(function);
    for (unsigned i = 0; i < count; i++)
        OPENSSL_sk_push(stack, objects[i]);
    if (count > 10)
        OPENSSL_sk_pop(stack);
    if (function)
        OPENSSL_sk_sort(stack);
    keep("STACK", stack);
    keep("STACK items", ((void **)stack)[1]);
}

// A table of our own with the numbers of a true one, but for one of them: one item more than there are nodes, a room twice as large, a
// bucket that is split too early, another load, no function; or a chain that leads to a larger chunk.
static void make_table_decoys(const uint64_t *like)
{
    for (int kind = 0; kind < 6; kind++) {
        uint64_t *table = copy("decoy", like, WORDS * sizeof *like);
        uint64_t **buckets = keep("decoy", calloc(kind == 1 ? 32 : 16, sizeof *buckets));
        int numbers = like[5] == 512 ? 3 : 7;
        table[0] = (uint64_t)buckets;
        for (int i = 0; i < 8; i++)
            buckets[i] = keep("decoy", calloc(1, kind == 5 && i == 7 ? 56 : 24));
        table[numbers] = UINT64_C(16) << 32 | 8;
        table[numbers + 1] = UINT64_C(8) << 32;
        table[numbers + 4] = 8 + (kind == 0);
        if (kind == 1)
            table[numbers] = UINT64_C(32) << 32 | 8;
        else if (kind == 2)
            table[numbers + 1] |= 1;
        else if (kind == 3)
            table[numbers + 2] = 511;
        else if (kind == 4)
            table[1] = (uint64_t)objects;
    }
}

// Likewise: more items than room, a smaller array, a function that is none, sorted twice, an item that leads nowhere, a room that no stack
// has without a function.
static void make_stack_decoys(void)
{
    for (int kind = 0; kind < 6; kind++) {
        uint64_t *stack = keep("decoy", calloc(1, 32));
        uint64_t room = kind == 5 ? 10 : 9;
        uint64_t *items = keep("decoy", calloc(kind == 1 ? 4 : kind == 0 ? 11 : room, sizeof *items));
        for (int i = 0; i < (kind == 0 ? 11 : 4); i++)
            items[i] = kind == 4 && i == 3 ? 3 : (uint64_t)objects[i];
        stack[0] = kind == 0 ? 10 : 4;
        stack[1] = (uint64_t)items;
        stack[2] = room << 32 | (kind == 3 ? 2 : 0);
        stack[3] = kind == 2 ? (uint64_t)objects : 0;
    }
    // One of four without a function could be anything.
    uint64_t *few = keep("decoy", calloc(1, 32)), *items = keep("decoy", calloc(4, sizeof *items));
    items[0] = (uint64_t)objects;
    few[0] = 1;
    few[1] = (uint64_t)items;
    few[2] = UINT64_C(4) << 32;
}

// A number: what another library has for a vector.
static void make_number(void)
{
    uint64_t *number = keep("decoy", calloc(1, 24));
    number[0] = (uint64_t)memset(keep("decoy", malloc(64)), 0x5a, 64);
    number[1] = UINT64_C(8) << 32 | 7;
    number[2] = UINT64_C(1) << 32;
}

int main(int argc, char **argv)
{
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (!CRYPTO_set_mem_functions(take, grow, drop))
        return 1;
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : MANY;
    for (unsigned i = 0; i < rounds; i++) {
        make_table_decoys((const uint64_t *)make_table(i * i * 20));
        shrink_table(i * i * 40);
        make_stack(1 + i * i * 10, compare_items);
        make_stack(5 + i * i * 10, NULL);
        make_stack_decoys();
        make_number();
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
