// SPDX-License-Identifier: MIT
// C++ objects by their first word, which leads to their class's vtable.
//
// Nothing but memory proves a vtable: the Itanium C++ ABI puts the offset to the top of the object (0 here) and the address of the
// type's type_info before the address that an object holds, and the addresses of functions behind it. The type_info leads to the
// mangled name. Without RTTI the symbol of the vtable (_ZTV...) names the class.
#pragma once

#include "libc/target_modules.h"
#include "target/target.h"

#include <pthread.h>

enum {
    AS_BEGINS_TEXT = 0xff00, // behind it, a text's length
    AS_MOST_VTABLES = AS_BEGINS_TEXT - 1,
};

// A word with which chunks begin, and which leads into a module's data.
struct as_vtable {
    uint64_t word;
    uint32_t name; // of the class, mangled ("3Foo"), in as_vtables.names; 0: it has none
    bool proven;   // it leads to a vtable
    bool plain;    // its name is not mangled: a class of glib's (gobject.h)
};

struct as_vtables {
    struct as_target *target;
    AS_VEC(struct as_range) data; // where modules have data, by address
    uint64_t low, size;           // all of it
    uint16_t *begins; // what a node begins with: index in `list`; 0: none; or AS_BEGINS_TEXT and a length (patterns.h)
    uint32_t nodes;
    pthread_mutex_t lock;          // of `list` and `buckets`, while chunks are read
    AS_VEC(struct as_vtable) list; // [0] is not used
    uint32_t *buckets;             // by a hash of the word: indexes in `list`
    struct as_strings names;
};

// A thread's way to the list: what it has asked for already.
struct as_vtable_words {
    struct as_vtable_known {
        uint64_t word;
        uint32_t index;
    } * slots;
    struct as_vtable_known last;
};

// False: AS_NO_MEMORY. Close it in either case.
bool as_vtables_open(struct as_vtables *v, struct as_target *t, uint32_t nodes, struct as_error *err);
void as_vtables_close(struct as_vtables *v);

// The index of a word in the list; 0: it leads to no vtable.
uint32_t as_vtable_find(struct as_vtable_words *words, struct as_vtables *v, uint64_t word);
// Takes the first word of a node.
static inline void as_vtable_word(struct as_vtable_words *words, struct as_vtables *v, uint32_t node, uint64_t word)
{
    if (word - v->low >= v->size)
        return;
    if (word != words->last.word)
        words->last = (struct as_vtable_known){word, as_vtable_find(words, v, word)};
    v->begins[node] = (uint16_t)words->last.index;
}

// The index in the list of what a node begins with; 0: it is not in there.
static inline uint32_t as_vtable_of(const struct as_vtables *v, uint32_t node)
{
    return v->begins[node] < AS_BEGINS_TEXT ? v->begins[node] : 0;
}
void as_vtable_words_free(struct as_vtable_words *words);

// After all chunks: proves what the words lead to, and names the classes. To be called while the target stands still.
void as_vtables_prove(struct as_vtables *v, struct as_modules *modules);
