// SPDX-License-Identifier: MIT
// Which class each of Ruby's objects is of. An object's second word is its class, or its singleton class, or a module's stand-in
// between both; the chain of superclasses leads from there to the class that obj.class says.
#include "runtimes/ruby_classes.h"

#include "base/sort.h"

#include <string.h>

enum {
    TYPE_BITS = 5,
    CHAIN = 256, // singleton classes and modules between an object and its class
    FIRST_SLOTS = 1024,
    NAME = 256,
};

const struct as_ruby_layout *as_ruby_layout_of(const struct as_store *s)
{
    size_t count;
    const struct as_ruby_layout *layouts = as_ruby_layouts(&count);
    const char *releases = as_strings_at(&s->strings, s->meta.ruby_releases);
    for (size_t i = 0; i < count; i++)
        if (strcmp(layouts[i].releases, releases) == 0)
            return &layouts[i];
    return NULL;
}

// The slot that has a key, or the empty one where it belongs.
static struct as_ruby_class_slot *slot_of(struct as_ruby_classes *c, uint64_t key)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (key * odd >> 32) & (c->slots.count - 1);
    while (c->slots.items[at].key != 0 && c->slots.items[at].key != key)
        at = (at + 1) & (c->slots.count - 1);
    return &c->slots.items[at];
}

static bool grow_classes(struct as_ruby_classes *c, struct as_error *err)
{
    struct as_ruby_classes larger = {0};
    size_t count = c->slots.count > 0 ? 2 * c->slots.count : FIRST_SLOTS;
    if (!as_vec_reserve(&larger.slots, count, err))
        return false;
    larger.slots.count = count;
    for (size_t i = 0; i < c->slots.count; i++)
        if (c->slots.items[i].key != 0)
            *slot_of(&larger, c->slots.items[i].key) = c->slots.items[i];
    as_vec_free(&c->slots);
    c->slots.items = larger.slots.items;
    c->slots.count = larger.slots.count;
    c->slots.capacity = larger.slots.capacity;
    return true;
}

static bool is_singleton(const struct as_ruby_classes *c, uint64_t flags)
{
    return as_ruby_type_of(flags) == AS_RUBY_T_CLASS && (flags & c->layout->singleton);
}

// What obj.class says of an object that has this word for its class; 0: it leads nowhere.
static uint64_t real_class(struct as_ruby_classes *c, uint64_t class)
{
    for (int i = 0; i < CHAIN; i++) {
        uint64_t words[3]; // flags, class, superclass
        if (class % sizeof(uint64_t) != 0 || !as_ruby_in_pages(c->store, class) ||
            !as_target_read(c->target, class, words, sizeof words))
            return 0;
        if (as_ruby_type_of(words[0]) != AS_RUBY_T_ICLASS && !is_singleton(c, words[0]))
            return as_ruby_type_of(words[0]) == AS_RUBY_T_CLASS ? class : 0;
        class = words[2];
    }
    return 0;
}

static bool add_pair(struct as_ruby_classes *c, struct as_ruby_pair new, uint32_t *pair, struct as_error *err)
{
    *pair = AS_RUBY_NO_PAIR;
    c->broken |= c->pairs.count >= AS_RUBY_NO_PAIR;
    if (c->broken)
        return true;
    if (!as_vec_push(&c->pairs, err, new))
        return false;
    *pair = (uint32_t)(c->pairs.count - 1);
    return true;
}

static uint64_t key_of(uint64_t class, uint32_t type)
{
    return class << TYPE_BITS | type;
}

// The pair that a key has; a new one if it has none. False: our memory ran out.
static bool find_or_add(struct as_ruby_classes *c, uint64_t key, struct as_ruby_pair new, uint32_t *pair,
                        struct as_error *err)
{
    if (2 * c->used >= c->slots.count && !grow_classes(c, err))
        return false;
    struct as_ruby_class_slot *slot = slot_of(c, key);
    if (slot->key == 0) {
        if (!add_pair(c, new, &slot->pair, err))
            return false;
        slot->key = key;
        c->used++;
    }
    *pair = slot->pair;
    return true;
}

// As find_or_add, of objects that have a class: the pair of the class that obj.class says, which the word then has, too.
static bool find_class(struct as_ruby_classes *c, uint64_t class, uint32_t type, uint32_t *pair, struct as_error *err)
{
    if (c->slots.count > 0) {
        const struct as_ruby_class_slot *found = slot_of(c, key_of(class, type));
        *pair = found->pair;
        if (found->key != 0)
            return true;
    }
    uint64_t real = real_class(c, class);
    struct as_ruby_pair new = {.class = real, .type = type, .kind = AS_CLASS_NAMED};
    c->broken |= real == 0;
    if (!find_or_add(c, key_of(real, type), new, pair, err))
        return false;
    if (real == class || (2 * c->used >= c->slots.count && !grow_classes(c, err)))
        return real == class;
    *slot_of(c, key_of(class, type)) = (struct as_ruby_class_slot){key_of(class, type), *pair};
    c->used++;
    return true;
}

bool as_ruby_pair_of(struct as_ruby_classes *c, uint64_t flags, uint64_t class, uint32_t *pair, struct as_error *err)
{
    uint32_t type = as_ruby_type_of(flags);
    *pair = AS_RUBY_NO_PAIR;
    c->broken |= type == 0;
    if (!c->layout || c->broken)
        return true;
    if (is_singleton(c, flags)) {
        struct as_ruby_pair new = {.type = type, .kind = AS_CLASS_SINGLETON};
        return find_or_add(c, key_of(1, type), new, pair, err); // no class has this address
    }
    if (type >= AS_RUBY_T_IMEMO || class == 0) { // the second word of an imemo says nothing
        struct as_ruby_pair new = {.type = type, .kind = AS_CLASS_INTERNAL};
        return find_or_add(c, key_of(0, type), new, pair, err);
    }
    return find_class(c, class, type, pair, err);
}

static uint64_t bytes_of(const struct as_ruby_pair *pair)
{
    return pair->bytes + pair->owned;
}

static bool add_class(struct as_ruby_classes *c, struct as_store *store, const struct as_ruby_pair *pair,
                      const struct as_ruby_name_place *place, struct as_error *err)
{
    char name[NAME];
    struct as_class_record *record = as_vec_add(&store->classes, err);
    if (!record)
        return false;
    *record = (struct as_class_record){
        .kind = pair->kind,
        .address = pair->class,
        .count = pair->count,
        .bytes = pair->bytes,
        .owned_malloc_bytes = pair->owned,
        .not_marked = pair->not_marked,
        .not_marked_bytes = pair->not_marked_bytes,
    };
    if (pair->kind != AS_CLASS_NAMED)
        return true;
    if (as_ruby_class_name(c, place, pair->class, name, sizeof name))
        record->name = as_strings_add(&store->strings, name, sizeof name);
    else
        record->kind = AS_CLASS_ANONYMOUS;
    return true;
}

// The order of the pairs, those with the most bytes first: each with its index, which is below 2^14.
static bool sort_pairs(const struct as_ruby_classes *c, uint64_t *order, struct as_error *err)
{
    const uint64_t most = UINT64_MAX >> AS_RUBY_PAIR_BITS;
    for (size_t i = 0; i < c->pairs.count; i++) {
        uint64_t bytes = bytes_of(&c->pairs.items[i]);
        order[i] = (most - (bytes < most ? bytes : most)) << AS_RUBY_PAIR_BITS | i;
    }
    return as_sort_u64(order, c->pairs.count, err);
}

bool as_ruby_add_classes(struct as_ruby_classes *c, struct as_store *store, uint32_t runtime, const uint32_t *types,
                         bool marks_known, struct as_error *err)
{
    struct as_ruby_name_place place;
    AS_VEC(uint64_t) order = {0};
    if (c->broken || !c->layout || !as_ruby_find_names(c, &place))
        return true;
    bool ok = as_vec_reserve(&order, c->pairs.count, err) && sort_pairs(c, order.items, err);
    for (size_t i = 0; i < c->pairs.count && ok; i++) {
        const struct as_ruby_pair *pair = &c->pairs.items[order.items[i] & AS_RUBY_NO_PAIR];
        ok = add_class(c, store, pair, &place, err);
        if (!ok)
            break;
        struct as_class_record *record = &store->classes.items[store->classes.count - 1];
        record->runtime = runtime;
        record->type = types[pair->type];
        if (!marks_known)
            record->not_marked = record->not_marked_bytes = AS_UNKNOWN;
    }
    as_vec_free(&order);
    return ok;
}

void as_ruby_classes_free(struct as_ruby_classes *c)
{
    AS_FREE_VECS(c, pairs, slots);
}
