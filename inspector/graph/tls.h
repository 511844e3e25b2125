// SPDX-License-Identifier: MIT
// Where each thread has its thread-local variables of each module.
//
// Nothing but memory and program headers tell that: ld.so's struct link_map has what PT_TLS says in four words, one behind the other,
// and behind them the offset of the module's block from the thread pointer, or the module's number in each thread's dtv.
#pragma once

#include "base/vec.h"
#include "libc/target_modules.h"

// What a thread has of a module.
struct as_tls_block {
    uint64_t start, size; // bytes
    uint32_t module;      // index in the modules
    bool on_demand;       // it was made when the thread first asked for it
};

struct as_tls {
    AS_VEC(struct as_tls_block) blocks; // by address, disjoint
    AS_VEC(uint64_t) dtvs;              // of each thread: its dtv, 16 bytes behind where the chunk of it begins
};

// Finds the blocks of a target that stands still, of the modules that are known. Free it in either case. False: AS_NO_MEMORY.
bool as_tls_find(struct as_tls *tls, const struct as_modules *modules, struct as_error *err);
void as_tls_free(struct as_tls *tls);

// The block in which an address lies; NULL: none.
const struct as_tls_block *as_tls_at(const struct as_tls *tls, uint64_t address);
