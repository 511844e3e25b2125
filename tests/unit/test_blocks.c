// SPDX-License-Identifier: MIT
// Blocks of memory for vectors, which a server keeps: as the kernel's, zeroed, each somebody's alone, and a child's, too, where it has to be.
#include "base/blocks.h"
#include "base/vec.h"
#include "support/check.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000, MANY = 100 };

typedef AS_VEC(uint64_t) numbers;

static bool are_zeros(const numbers *v)
{
    for (size_t i = 0; i < v->capacity; i++)
        if (v->items[i] != 0)
            return false;
    return true;
}

static void test_closed(void)
{
    numbers v = {0};
    CHECK(as_block_size(1) == 0);
    CHECK(as_vec_add(&v, NULL) && !as_is_block(v.items));
    as_blocks_open(); // it stays where it is, however it grows
    CHECK(as_vec_reserve(&v, 20000, NULL) && !as_is_block(v.items));
    as_vec_free(&v);
    as_blocks_close();
}

static void test_new_room_is_zeroed(void)
{
    for (size_t room = 1; room <= 8192; room *= 64) {
        for (int round = 0; round < 3; round++) {
            numbers v = {0};
            CHECK(as_vec_reserve(&v, room, NULL) && as_is_block(v.items) && v.capacity >= room);
            CHECK(are_zeros(&v));
            memset(v.items, 0xff, v.capacity * sizeof *v.items);
            as_vec_free(&v);
        }
    }
}

static void test_growth_keeps_what_there_is(void)
{
    numbers v = {0};
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t *place = as_vec_add(&v, NULL);
        CHECK(place && *place == 0);
        *place = i;
    }
    for (uint64_t i = 0; i < v.count; i++)
        CHECK(v.items[i] == i);
    CHECK(!as_is_block(v.items));
    as_vec_free(&v);
}

static void test_more_than_there_are(void)
{
    numbers v[MANY] = {0};
    for (size_t i = 0; i < MANY; i++) {
        uint64_t *place = as_vec_add(&v[i], NULL);
        CHECK(place);
        *place = i;
    }
    CHECK(as_is_block(v[0].items) && !as_is_block(v[MANY - 1].items));
    for (size_t i = 0; i < MANY; i++) {
        CHECK(v[i].items[0] == i);
        as_vec_free(&v[i]);
    }
    numbers again = {0};
    CHECK(as_vec_add(&again, NULL) && as_is_block(again.items));
    as_vec_free(&again);
}

static void *take_and_return(void *own)
{
    for (int i = 0; i < ROUNDS; i++) {
        numbers v = {0};
        CHECK(as_vec_add(&v, NULL) && v.items[0] == 0);
        for (int k = 0; k < 10; k++) {
            v.items[0] = (uint64_t)(uintptr_t)own;
            CHECK(*(volatile uint64_t *)v.items == (uint64_t)(uintptr_t)own);
        }
        as_vec_free(&v);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_and_return, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

// What a child finds at an address.
static int in_child(const uint64_t *at)
{
    int status = -1;
    as_blocks_before_fork();
    pid_t child = fork();
    if (child == 0) {
        numbers own = {0};
        bool closed = as_vec_add(&own, NULL) && !as_is_block(own.items);
        _exit(closed ? (int)*at : 255);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    as_blocks_open();
    return WEXITSTATUS(status);
}

static void test_a_child_has_what_is_in_use(void)
{
    numbers small = {0}, large = {0};
    CHECK(as_vec_add(&small, NULL) && as_vec_reserve(&large, 5000, NULL));
    CHECK(as_is_block(small.items) && as_is_block(large.items));
    uint64_t *at = small.items;
    small.items[0] = 42;
    large.items[4999] = 43;
    CHECK(in_child(&small.items[0]) == 42);
    CHECK(in_child(&large.items[4999]) == 43);
    as_vec_free(&small);
    CHECK(in_child(&large.items[4999]) == 43); // of which one is in use, all are there
    as_vec_free(&large);
    CHECK(in_child(at) == 0);
    CHECK(as_vec_add(&small, NULL));
    small.items[0] = 44;
    CHECK(in_child(small.items) == 44); // also after a fork at which none was in use
    as_vec_free(&small);
}

int main(void)
{
    test_closed();
    as_blocks_keep();
    test_closed();
    as_blocks_open();
    test_new_room_is_zeroed();
    test_growth_keeps_what_there_is();
    test_more_than_there_are();
    test_threads();
    test_a_child_has_what_is_in_use();
    return 0;
}
