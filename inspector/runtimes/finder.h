// SPDX-License-Identifier: MIT
// What finds the memory of a runtime or of an allocator beside glibc's malloc, from outside and by structure: one interface for all of
// them.
#pragma once

#include "base/error.h"
#include "libc/libc.h"
#include "model/store.h"
#include "target/target.h"

struct as_hotspot;
struct as_variable_words;

// What a finder is told: of a target that stands still and whose residency is known.
struct as_finder_input {
    struct as_target *target;
    struct as_store *store; // gets a record of what is found, with its regions
    struct as_error *err;
    const struct as_malloc *malloc;   // what the process's files say: its malloc, and its interpreters
    struct as_variable_words *words;  // of all finders of a snapshot; NULL: each reads on its own
    const struct as_hotspot *hotspot; // as as_hotspot_open found it before the stop
    bool pages;                       // what lies on each of the kernel's pages of an interpreter's heap is wanted
};

struct as_finder {
    // Nothing is found: no record; or, if something says that there should be such memory, one with the state AS_REGIONS_UNPROVEN.
    // False (AS_NO_MEMORY): our memory ran out.
    bool (*find)(const struct as_finder_input *in);
    uint32_t kind;      // of the record, if what is found may answer malloc; 0: it never does
    bool anywhere;      // it may be linked in anywhere; else only where something says that it may answer malloc
    bool before_malloc; // proven pool by pool, so that it is believed even where it seems to be malloc's
};

// Each finds what the head of its file says. Those of Go, V8 and PHP add a record with the state AS_REGIONS_UNPROVEN, and a warning, where a
// program says that it has such a heap, and none was found.
bool as_go_find(const struct as_finder_input *in);
bool as_innodb_find(
    const struct as_finder_input *in); // if mariadbd is mapped; the bytes of what was not found stay in other_anon
bool as_jemalloc_find(const struct as_finder_input *in);
bool as_mimalloc_find(const struct as_finder_input *in);
bool as_mimalloc3_find(const struct as_finder_input *in); // mimalloc 3 has nothing in common with 2
bool as_musl_find(const struct as_finder_input *in);
bool as_partitionalloc_find(const struct as_finder_input *in);
bool as_tcmalloc_find(const struct as_finder_input *in); // the first one
bool as_v8_find(const struct as_finder_input *in);       // and cppgc's heaps, where there are such
bool as_zend_find(const struct as_finder_input *in);
