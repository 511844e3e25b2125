// SPDX-License-Identifier: MIT
// Ruby's objects by class. Internal to runtimes/.
#pragma once

#include "runtimes/ruby_layouts.h"

enum {
    AS_RUBY_PAIR_BITS = 14,
    AS_RUBY_NO_PAIR = (1 << AS_RUBY_PAIR_BITS) - 1, // there are too many classes
};

// The objects of one class that have one type.
struct as_ruby_pair {
    uint64_t class; // its address; 0 where kind says that there is none
    uint32_t type;  // T_STRING, ...
    uint32_t kind;  // as_class_kind
    uint64_t count, bytes, owned;
    uint64_t not_marked, not_marked_bytes; // of them, those without a mark; bytes of their slots, and of what they own
};

struct as_ruby_class_slot {
    uint64_t key; // the word that objects have for their class, and their type; 0: empty
    uint32_t pair;
};

struct as_ruby_classes {
    struct as_target *target;
    const struct as_store *store;
    const struct as_ruby_layout *layout; // NULL: the release's classes are not known
    AS_VEC(struct as_ruby_pair) pairs;
    AS_VEC(struct as_ruby_class_slot) slots; // open addressing; the capacity in use is a power of two
    size_t used;                             // slots that are not empty
    bool broken;                             // an object's class is none, or there are too many
};

// The layout that ruby_find.c has accepted; NULL: none.
const struct as_ruby_layout *as_ruby_layout_of(const struct as_store *s);

// Does an address lie in one of Ruby's own pages?
bool as_ruby_in_pages(const struct as_store *s, uint64_t address);

// The pair of an object with these flags and this word for its class: an index of c->pairs, or AS_RUBY_NO_PAIR. False (AS_NO_MEMORY): our
// memory ran out.
bool as_ruby_pair_of(struct as_ruby_classes *c, uint64_t flags, uint64_t class, uint32_t *pair, struct as_error *err);

// Adds the pairs to store->classes, those with the most bytes first. `types`: of each type its index in store->types. If the names of
// classes cannot be proven, none is added. False (AS_NO_MEMORY): our memory ran out.
bool as_ruby_add_classes(struct as_ruby_classes *c, struct as_store *store, uint32_t runtime, const uint32_t *types,
                         bool marks_known, struct as_error *err);

void as_ruby_classes_free(struct as_ruby_classes *c);

// How a class's name is found: by a word of the class itself (from 3.2 on), or by an entry of its table of instance variables (up to 3.1).
struct as_ruby_name_place {
    uint32_t word;
    uint64_t key;   // of the entry
    uint32_t votes; // classes whose word there is a name
};
// Finds the place that most of the classes have their name at. False: there is none that all three of Object, Class and String agree with.
bool as_ruby_find_names(struct as_ruby_classes *c, struct as_ruby_name_place *place);
// Reads a class's name, of at most size - 1 bytes. False: the class has none.
bool as_ruby_class_name(struct as_ruby_classes *c, const struct as_ruby_name_place *place, uint64_t class, char *name,
                        size_t size);
