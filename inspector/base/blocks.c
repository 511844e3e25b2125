// SPDX-License-Identifier: MIT
#include "base/blocks.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZES = 2, EACH = 64 }; // of each size as many as a word has bits

static const size_t sizes[SIZES] = {16 << 10, 64 << 10};
static _Atomic uint64_t used[SIZES]; // a bit for each block
static uint8_t *blocks[SIZES];       // where they begin
static atomic_bool open_to_all;

void as_blocks_keep(void)
{
    for (int i = 0; i < SIZES; i++) {
        void *memory =
            mmap(NULL, EACH * sizes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        blocks[i] = memory == MAP_FAILED ? NULL : memory;
    }
}

void as_blocks_open(void)
{
    atomic_store(&open_to_all, true);
}

void as_blocks_close(void)
{
    atomic_store(&open_to_all, false);
}

void as_blocks_before_fork(void)
{
    as_blocks_close();
    for (int i = 0; i < SIZES; i++)
        if (blocks[i])
            madvise(blocks[i], EACH * sizes[i], atomic_load(&used[i]) ? MADV_KEEPONFORK : MADV_WIPEONFORK);
}

static int index_of(size_t size)
{
    int i = 0;
    while (i < SIZES && sizes[i] < size)
        i++;
    return i;
}

size_t as_block_size(size_t bytes)
{
    int i = index_of(bytes);
    return i < SIZES && blocks[i] && atomic_load(&open_to_all) ? sizes[i] : 0;
}

void *as_block_take(size_t size)
{
    int i = index_of(size);
    if (i == SIZES)
        return NULL;
    uint64_t before = atomic_load(&used[i]);
    uint64_t free;
    do {
        free = ~before & (before + 1); // the lowest
        if (!free)
            return NULL;
    } while (!atomic_compare_exchange_weak(&used[i], &before, before | free));
    return blocks[i] + (size_t)__builtin_ctzll(free) * sizes[i];
}

// The size of a block, as an index; -1: it is none.
static int size_of(const void *memory)
{
    for (int i = 0; i < SIZES; i++)
        if (blocks[i] && (uintptr_t)memory - (uintptr_t)blocks[i] < EACH * sizes[i])
            return i;
    return -1;
}

bool as_is_block(const void *memory)
{
    return size_of(memory) >= 0;
}

void as_block_return(void *block)
{
    int i = size_of(block);
    if (i < 0)
        return;
    memset(block, 0, sizes[i]);
    size_t number = (size_t)((uint8_t *)block - blocks[i]) / sizes[i];
    atomic_fetch_and(&used[i], ~(UINT64_C(1) << number));
}
