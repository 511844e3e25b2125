// SPDX-License-Identifier: MIT
// The objects of glib's type system (GObject, GTK, GStreamer): the name of each object's class.
//
// An object leads to its class, the class to its type, the type to its data, and the data back to the class. The data say how large an
// object is, and how much of its own lies before it in the same chunk. The type's name is that of its number in the list of all
// quarks, which is found by the names of all types together.
#include "base/memory.h"
#include "graph/shapes.h"
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    // Words of a type: how many types it derives from (the 5th byte of that word), its data, its number as a quark, and itself; behind
    // that all types that it derives from, and a zero.
    SUPERS = 2,
    DATA = 4,
    QUARK = 5,
    SELF = 9,
    TYPE_WORDS = 10,
    // Words of a type's data: the class, and sizes of an object and of what lies before it.
    CLASS = 7,
    SIZES = 8,
    DATA_WORDS = 9,
    MOST_CLASSES = 1 << 15,
    LEAST_CLASSES = 3, // whose names prove the list of quarks
    QUARKS = 2048,     // its length is a multiple of this
    LONGEST_NAME = 256,
    LEAST_NAME = 3,
};

struct class
{
    uint32_t node, type, data;
    uint32_t quark;
    uint16_t size, before; // bytes of an object, and of what lies before it
    uint16_t vtable;       // among as_vtables.list
};

struct gobject {
    struct as_proof proof;
    struct as_shaping graph; // only for its edges
    struct as_vtables *vtables;
    AS_VEC(struct class) classes;
    uint16_t *class_of; // of each node: the number of the class that it is, from 1 on
};

// Do a type and its data, of which the pointers fit already, say what a class of that node would say?
static bool accept_class(const struct gobject *g, struct class *c, uint64_t type)
{
    uint64_t w[TYPE_WORDS], d[DATA_WORDS], end;
    if (!as_target_read(g->proof.target, type, w, sizeof w) || w[SELF] != type ||
        !as_target_read(g->proof.target, w[DATA], d, sizeof d))
        return false;
    uint64_t supers = w[SUPERS] >> 32 & 0xff;
    c->quark = (uint32_t)w[QUARK];
    c->size = (uint16_t)d[SIZES];
    c->before = (uint16_t)(d[SIZES] >> 16);
    return supers > 0 && c->quark != 0 && c->size >= WORD && c->before % WORD == 0 &&
           as_proof_is_made_for(&g->proof, type, (SELF + supers + 2) * WORD) &&
           as_target_read_u64(g->proof.target, type + (SELF + supers + 1) * WORD, &end) && end == 0;
}

static void find_classes(struct gobject *g)
{
    for (struct as_used_cursor u = as_used_begin(g->proof.patterns->index);
         g->classes.count < MOST_CLASSES && as_used_next(&u);) {
        struct class c = {.node = u.chunk.node, .type = as_shape_link(&g->graph, u.chunk.node, 0)};
        c.data = c.type != AS_NO_NODE ? as_shape_link(&g->graph, c.type, DATA) : AS_NO_NODE;
        uint64_t type;
        if (c.data == AS_NO_NODE || as_shape_link(&g->graph, c.data, CLASS) != c.node ||
            !as_target_read_u64(g->proof.target, u.chunk.address + AS_HEADER, &type) || !accept_class(g, &c, type))
            continue;
        if (!as_vec_push(&g->classes, NULL, c))
            return;
        g->class_of[c.node] = (uint16_t)g->classes.count;
    }
}

// The name of a type: letters and digits, and few other characters.
static bool read_name(struct gobject *g, uint64_t quarks, uint32_t quark, char name[LONGEST_NAME])
{
    uint64_t text;
    if (g->proof.room < LONGEST_NAME)
        return false;
    g->proof.room -= LONGEST_NAME;
    if (!as_target_read_u64(g->proof.target, quarks + (uint64_t)quark * WORD, &text) || text == 0)
        return false;
    size_t got = as_target_read_resident(g->proof.target, text, name, LONGEST_NAME), length = strnlen(name, got);
    for (size_t i = 0; i < length; i++) {
        bool letter = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') || name[i] == '_';
        bool later = (name[i] >= '0' && name[i] <= '9') || name[i] == '-' || name[i] == '+';
        if (!letter && !(later && i > 0))
            return false;
    }
    return length >= LEAST_NAME && length < got;
}

// Gives all classes their names by a chunk that may be the list of quarks. False: some type has no name there, or two have the same.
static bool name_by(struct gobject *g, uint64_t quarks, uint64_t count, bool keep)
{
    char name[LONGEST_NAME], before[LONGEST_NAME] = "";
    for (size_t i = 0; i < g->classes.count; i++) {
        struct class *c = &g->classes.items[i];
        if (c->quark >= count || !read_name(g, quarks, c->quark, name) || strcmp(name, before) == 0)
            return false;
        memcpy(before, name, sizeof before);
        struct as_vtables *v = g->vtables;
        struct as_vtable *added = keep && v->list.count <= AS_MOST_VTABLES ? as_vec_add(&v->list, NULL) : NULL;
        if (!added)
            continue;
        *added =
            (struct as_vtable){.name = as_strings_add(&v->names, name, sizeof name), .proven = true, .plain = true};
        c->vtable = (uint16_t)(v->list.count - 1);
    }
    return true;
}

// It begins with a zero, as there is no quark 0, and has a multiple of QUARKS words. An older, shorter one may be left: it begins alike.
static bool find_names(struct gobject *g)
{
    for (struct as_used_cursor u = as_used_begin(g->proof.patterns->index); as_used_next(&u);) {
        uint64_t count = (u.chunk.size - WORD) / (QUARKS * WORD) * QUARKS, first, quarks = u.chunk.address + AS_HEADER;
        if (count > 0 && as_proof_is_made_for(&g->proof, quarks, count * WORD) &&
            as_target_read_u64(g->proof.target, quarks, &first) && first == 0 && name_by(g, quarks, count, false))
            return name_by(g, quarks, count, true);
    }
    return false;
}

// What leads to a class where an object of it does, and is as large as the type says.
static void find_objects(struct gobject *g)
{
    const struct as_edges *e = g->graph.edges;
    for (struct as_used_cursor u = as_used_begin(g->proof.patterns->index); as_used_next(&u);)
        AS_FOR_EDGES(e, u.chunk.node, i) {
            uint32_t number = as_edge_begins(e, i) ? g->class_of[as_edge_to(e, u.chunk.node, i)] : 0;
            const struct class *c = number != 0 ? &g->classes.items[number - 1] : NULL;
            if (!c || as_edge_place(e, i) * WORD != c->before ||
                !as_proof_is_made_for(&g->proof, u.chunk.address + AS_HEADER, (uint64_t)c->before + c->size))
                continue;
            g->vtables->begins[u.chunk.node] = c->vtable;
            break;
        }
}

static void prove_classes(struct gobject *g)
{
    find_classes(g);
    if (g->classes.count < LEAST_CLASSES || !find_names(g))
        return;
    for (size_t i = 0; i < g->classes.count; i++) {
        as_proof_give(&g->proof, g->classes.items[i].node, AS_SHAPE_GOBJECT_CLASS);
        as_proof_give(&g->proof, g->classes.items[i].type, AS_SHAPE_GOBJECT_TYPE);
        as_proof_give(&g->proof, g->classes.items[i].data, AS_SHAPE_GOBJECT_DATA);
    }
    find_objects(g);
}

bool as_gobject_find(const struct as_recogniser_input *in)
{
    struct gobject g = {.proof = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES},
                        .graph.edges = in->edges,
                        .vtables = in->vtables};
    const size_t bytes = ((size_t)in->edges->nodes + 1) * sizeof *g.class_of;
    if (!as_proof_has_library(in->target, "/libgobject-2.0.so"))
        return true;
    g.class_of = as_memory_map(bytes, "the classes of objects", NULL);
    if (g.class_of)
        prove_classes(&g);
    as_memory_unmap(g.class_of, bytes);
    as_vec_free(&g.classes);
    return true;
}
