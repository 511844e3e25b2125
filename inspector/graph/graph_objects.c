// SPDX-License-Identifier: MIT
#include "graph/graph_objects.h"
#include "base/memory.h"
#include "base/sort.h"
#include "runtimes/cpython.h"
#include "runtimes/ruby.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = sizeof(uint64_t), NAME = 1024, MOST_HEAD = UINT8_MAX * WORD };

// Where PyWeakReference has the object, and those weak references that refer to the same (Include/cpython/weakrefobject.h, 3.8 to
// 3.14).
enum { REFERENT = 16, PREVIOUS = 40, NEXT = 48 };

struct object_search {
    struct as_objects *objects;
    struct as_error *err;
    uint32_t first_type; // of the runtime that is being visited
    uint64_t region_end; // of the region that is being visited; 0: none yet
    uint64_t end;        // of the last block there
};

static uint64_t plain(uint64_t boundary)
{
    return boundary & ~(uint64_t)(AS_LATE - 1);
}

static bool add_boundary(struct object_search *f, uint64_t boundary)
{
    return as_vec_push(&f->objects->boundaries, f->err, boundary);
}

// What lies behind the last block of the region is a gap.
static bool end_region(struct object_search *f)
{
    bool ok = f->region_end == 0 || add_boundary(f, (f->end - AS_HEADER) | AS_GAP);
    f->region_end = 0;
    return ok;
}

// A number of bytes in words; 0 if they are too many.
static uint32_t words_in(uint64_t bytes)
{
    return bytes / WORD < UINT32_MAX ? (uint32_t)((bytes + WORD - 1) / WORD) : 0;
}

static bool add_block(void *context, const struct as_visited_block *b)
{
    struct object_search *f = context;
    struct as_objects *o = f->objects;
    if (b->region_end != 0) {
        uint64_t start = b->address - AS_HEADER;
        bool begins = b->region_end != f->region_end;
        if (begins && (!end_region(f) || !add_boundary(f, start | AS_HEAP_BEGINS)))
            return false;
        // Less than that has no place for a node of its own.
        bool apart = !begins && b->address - f->end >= AS_ALIGNMENT;
        if ((apart && !add_boundary(f, (f->end - AS_HEADER) | AS_GAP)) || !add_boundary(f, start))
            return false;
        f->region_end = b->region_end;
        f->end = b->address + b->size;
        o->blocks++;
        o->bytes += b->size;
    } else if (b->type == UINT32_MAX) {
        return true;
    }
    return as_vec_push(
        &o->found, f->err,
        (struct as_object_found){
            .address = b->address,
            .type = b->type == UINT32_MAX || b->head > MOST_HEAD ? 0 : f->first_type + 2 * b->type + b->memory,
            .head = b->head,
            .used = words_in(b->used),
        });
}

// Each type is two: its objects, and the memory that these have of their own.
static bool add_type(void *context, const struct as_visited_type *type)
{
    struct object_search *f = context;
    struct as_objects *o = f->objects;
    char name[NAME];
    snprintf(name, sizeof name, "%.900s (%s)", type->name, type->memory);
    if (!as_vec_reserve(&o->types, 2, f->err))
        return false;
    if (!type->of_heap && strcmp(type->name, "type") == 0)
        o->interpreter = type->address;
    if (!type->of_heap && strcmp(type->name, "dict") == 0)
        o->dict = (uint32_t)o->types.count;
    o->types.items[o->types.count++] = (struct as_object_type){.name = as_strings_add(&o->names, type->name, NAME),
                                                               .collected = type->collected,
                                                               .leftovers = type->leftovers,
                                                               .object = o->evidence == AS_OBJECTS_OF_PYTHON,
                                                               .weak_reference = type->weak_reference,
                                                               .linked = type->linked};
    o->types.items[o->types.count++] =
        (struct as_object_type){.name = as_strings_add(&o->names, name, NAME), .bytes = type->bytes};
    return true;
}

static bool add_owned(void *context, const struct as_visited_memory *memory)
{
    struct object_search *f = context;
    return as_vec_push(&f->objects->owned, f->err,
                       (struct as_object_owned){memory->address, f->first_type + 2 * memory->type + 1,
                                                words_in(memory->used), memory->begins});
}

static int by_start(const void *a, const void *b)
{
    const struct as_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// Do the heaps and the regions lie apart? In a forged target they may not.
static bool are_apart(const struct as_objects *o, const uint64_t *boundaries, size_t count, bool *apart,
                      struct as_error *err)
{
    AS_VEC(struct as_range) all = {0};
    bool ok = as_vec_reserve(&all, o->regions.count, err);
    for (size_t i = 0; ok && i < o->regions.count; i++)
        all.items[all.count++] = o->regions.items[i];
    for (size_t i = 0; ok && i < count; i++) {
        if (boundaries[i] & AS_HEAP_BEGINS) {
            ok = as_vec_push(&all, err, (struct as_range){plain(boundaries[i]), plain(boundaries[i])});
        } else if (all.count > o->regions.count && plain(boundaries[i]) > all.items[all.count - 1].end) {
            all.items[all.count - 1].end = plain(boundaries[i]);
        }
    }
    if (ok && all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, by_start);
    *apart = ok;
    for (size_t i = 1; ok && i < all.count; i++)
        *apart &= all.items[i - 1].end <= all.items[i].start;
    as_vec_free(&all);
    return ok;
}

static bool add_region(void *context, uint64_t start, uint64_t end)
{
    struct object_search *f = context;
    return as_vec_push(&f->objects->regions, f->err, (struct as_range){start, end});
}

static bool add_regions(struct object_search *f, const struct as_store *s, uint32_t runtime)
{
    AS_FOR_EACH(const struct as_region_record, r, &s->regions)
        if (r->runtime == runtime && !add_region(f, r->address, r->address + r->size))
            return false;
    return true;
}

struct chunk_list {
    AS_VEC(uint64_t) list;
};

// The chunks of at least `from` bytes, by address.
static bool find_chunks(struct chunk_list *large, uint64_t from, const uint64_t *boundaries, size_t count,
                        struct as_error *err)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (boundaries[i] & (AS_HEAP_BEGINS | AS_GAP) || plain(boundaries[i + 1]) - boundaries[i] < from)
            continue;
        if (!as_vec_push(&large->list, err, boundaries[i]))
            return false;
    }
    return large->list.count == 0 || as_sort_u64(large->list.items, large->list.count, err);
}

static bool visit_python(struct as_objects *o, struct as_target *t, const struct as_store *s, uint32_t runtime,
                         const struct chunk_list *large, bool *known, bool *any, struct as_error *err)
{
    struct object_search f = {.objects = o, .err = err, .first_type = (uint32_t)o->types.count};
    const struct as_object_visitor visitor = {&f, add_region, add_block, add_owned, add_type};
    struct as_visited visited;
    o->evidence = AS_OBJECTS_OF_PYTHON;
    if (!add_regions(&f, s, runtime) ||
        !as_cpython_visit(t, s, runtime, large->list.items, large->list.count, &visitor, &visited, err) ||
        !end_region(&f))
        return false;
    if (!visited.known && s->runtimes.items[runtime].state != AS_REGIONS_FOUND) { // its objects are no chunks either
        o->found.count = o->owned.count = 0;
        return true;
    }
    o->changed |= visited.changed;
    o->collector_off |= visited.collector_off;
    *known = visited.known && o->types.count < AS_MOST_OBJECT_TYPES;
    *any = true;
    return true;
}

static bool find_python(struct as_objects *o, struct as_target *t, const struct as_store *s, const uint64_t *boundaries,
                        size_t count, bool *known, bool *any, struct as_error *err)
{
    struct chunk_list large = {0};
    bool ok = true;
    for (size_t i = 0; ok && *known && i < s->runtimes.count; i++) {
        const struct as_runtime_record *r = &s->runtimes.items[i];
        if (r->kind == AS_RUNTIME_CPYTHON)
            ok = (*any || find_chunks(&large, as_cpython_chunks_from(r), boundaries, count, err)) &&
                 visit_python(o, t, s, (uint32_t)i, &large, known, any, err);
    }
    as_vec_free(&large.list);
    return ok;
}

// All that lies between the first and the last boundary.
static struct as_range range_of(const uint64_t *boundaries, size_t count)
{
    struct as_range range = {UINT64_MAX, 0};
    for (size_t i = 0; i < count; i++) {
        uint64_t at = plain(boundaries[i]);
        range.start = at < range.start ? at : range.start;
        range.end = at > range.end ? at : range.end;
    }
    return range;
}

static bool find_ruby(struct as_objects *o, struct as_target *t, const struct as_store *s, const uint64_t *boundaries,
                      size_t count, bool *known, bool *any, struct as_error *err)
{
    if (*any || !as_ruby_is_apart(s)) // of two languages in one process, the first has its objects told
        return true;
    struct object_search f = {.objects = o, .err = err, .first_type = (uint32_t)o->types.count};
    const struct as_object_visitor visitor = {&f, add_region, add_block, add_owned, add_type};
    struct as_range heaps = range_of(boundaries, count);
    o->evidence = AS_OBJECTS_OF_RUBY;
    struct chunk_list large = {0};
    struct as_visited visited = {0};
    bool ok = find_chunks(&large, AS_RUBY_WEAK_CHUNK, boundaries, count, err) &&
              as_ruby_visit(t, s, &heaps, large.list.items, large.list.count, &visitor, &visited, err) &&
              end_region(&f);
    as_vec_free(&large.list);
    o->interpreter = s->ruby_interpreter;
    o->collector_off = visited.collector_off;
    o->changed |= visited.changed;
    *known = visited.known;
    *any = true;
    return ok;
}

bool as_objects_find(struct as_objects *o, struct as_target *t, const struct as_store *s, const uint64_t *boundaries,
                     size_t count, struct as_error *err)
{
    *o = (struct as_objects){0};
    bool known = true, any = false;
    bool ok = as_vec_reserve(&o->types, 1, err);
    if (ok)
        o->types.items[o->types.count++] = (struct as_object_type){0};
    ok = ok && find_python(o, t, s, boundaries, count, &known, &any, err) &&
         find_ruby(o, t, s, boundaries, count, &known, &any, err);
    if (ok && known && any)
        ok = are_apart(o, boundaries, count, &known, err);
    if (!ok || !known || !any) { // none are there, or what was found is not to be believed
        as_objects_free(o);
        return ok;
    }
    if (!as_vec_reserve(&o->boundaries, count, err))
        return false;
    for (size_t i = 0; i < count; i++)
        o->boundaries.items[o->boundaries.count++] = boundaries[i];
    if (o->regions.count > 0)
        qsort(o->regions.items, o->regions.count, sizeof *o->regions.items, by_start);
    return true;
}

bool as_objects_place(struct as_objects *o, const struct as_index *x, struct as_error *err)
{
    if (o->boundaries.count == 0)
        return true;
    o->nodes = x->count;
    o->of_node = as_memory_map(((size_t)x->count + 1) * sizeof *o->of_node, "the types of objects", err);
    o->head = o->of_node ? as_memory_map((size_t)x->count + 1, "the types of objects", err) : NULL;
    o->used = o->head ? as_memory_map(((size_t)x->count + 1) * sizeof *o->used, "the memory of objects", err) : NULL;
    if (!o->used)
        return false;
    AS_FOR_EACH(const struct as_object_found, found, &o->found) {
        uint32_t node = as_index_node_at(x, found->address - AS_HEADER);
        if (node == AS_NO_NODE)
            continue;
        o->of_node[node] = found->type | (as_objects_has(o, found->address) ? AS_OBJECT_BLOCK : 0);
        o->head[node] = (uint8_t)(found->head / WORD);
        o->used[node] = found->used;
    }
    // What is an object itself is nobody's own memory.
    for (size_t i = 0; i < o->owned.count; i++) {
        bool begins;
        uint32_t node = as_index_pointer(x, o->owned.items[i].address, &begins);
        if (node == AS_NO_NODE || as_object_of(o, node) != 0 || (o->owned.items[i].begins && !begins))
            continue;
        o->of_node[node] |= o->owned.items[i].type;
        o->used[node] = o->owned.items[i].used;
    }
    AS_FREE_VECS(o, boundaries, found, owned);
    return true;
}

bool as_objects_has(const struct as_objects *o, uint64_t address)
{
    const struct as_range *regions = o->regions.items;
    size_t at = AS_PARTITION_POINT(0, o->regions.count, i, regions[i].end <= address);
    return at < o->regions.count && address >= regions[at].start;
}

bool as_object_holds_nothing(const struct as_objects *o, uint32_t node, uint64_t offset, uint32_t to)
{
    uint32_t index = as_object_of(o, node);
    const struct as_object_type *type = &o->types.items[index];
    uint64_t head = index != 0 ? (uint64_t)o->head[node] * WORD : 0;
    if (index == 0)
        return false;
    if (type->collected && offset < head && offset >= head - AS_COLLECTOR_HEAD)
        return true;
    bool linked = type->linked && as_object_of(o, to) == index;
    if (type->bytes || (type->leftovers && !type->collected && as_object_of(o, to) != 0 && !linked))
        return true;
    return type->weak_reference && (offset == head + REFERENT || offset == head + PREVIOUS || offset == head + NEXT);
}

void as_objects_free(struct as_objects *o)
{
    as_memory_unmap(o->of_node, ((size_t)o->nodes + 1) * sizeof *o->of_node);
    as_memory_unmap(o->head, (size_t)o->nodes + 1);
    as_memory_unmap(o->used, ((size_t)o->nodes + 1) * sizeof *o->used);
    AS_FREE_VECS(o, types, names, regions, boundaries, found, owned);
    *o = (struct as_objects){0};
}
