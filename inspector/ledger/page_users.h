// SPDX-License-Identifier: MIT
// Whose chunks lie on each page. Chunks in use come in, heap by heap and ascending in each, with the number of who holds them; each
// page is handed on when no more chunks can touch it.
#pragma once

#include "model/store.h"

struct as_page_user {
    uint32_t user;
    uint32_t count; // its chunks on the page
    uint64_t bytes; // of these on the page
};

// What is handed on: a page's index in the store, who is on it, how many chunks that are, and the page's stranded bytes as the ledger
// counts them. `here` may be sorted. False: no memory.
struct as_used_page {
    uint64_t page;
    struct as_page_user *here;
    size_t users;
    uint32_t chunks;
    uint64_t stranded;
};
typedef bool as_used_page_taker(void *context, const struct as_used_page *page);

// Where a user stood in `here` last.
struct as_page_user_place {
    uint64_t page; // and 1
    uint32_t place;
};

struct as_page_users {
    const struct as_store *store; // with heaps and pages; the rest may still be missing
    uint32_t page_size;
    as_used_page_taker *take;
    void *context;
    struct as_error *err;
    AS_VEC(struct as_heap_record) heaps; // by address
    size_t heap;                         // the last that was found
    uint64_t page;                       // the current one: index in the store's pages; UINT64_MAX: none
    uint64_t from, until;                // its addresses, as far as they are the heap's
    uint32_t chunks;
    AS_VEC(struct as_page_user) here;
    uint32_t users;                    // how many numbers there are
    struct as_page_user_place *places; // by user
};

// For users 0 to `users` - 1. `u` has store, page_size, take, context and err, and is 0 otherwise. Close it in either case. AS_NO_MEMORY.
bool as_page_users_open(struct as_page_users *u, uint32_t users);
void as_page_users_close(struct as_page_users *u);

// The heap in which an address is; NULL: none.
const struct as_heap_record *as_page_users_heap(struct as_page_users *u, uint64_t address);

// A chunk in use. One that lies in no heap is on no page. False: no memory, or `take` said so.
bool as_page_users_put(struct as_page_users *u, uint32_t user, uint64_t address, uint64_t size);

// After the last chunk.
bool as_page_users_end(struct as_page_users *u);
