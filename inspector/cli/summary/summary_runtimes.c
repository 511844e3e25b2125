// SPDX-License-Identifier: MIT
// What the summary says of the heaps that runtimes keep for themselves.
#include "cli/enum_names.h"
#include "cli/json.h"
#include "cli/summary/summary.h"
#include "findings/runtime_names.h"
#include "ledger/ledger.h"

#include <string.h>

static void put_size_classes(struct as_json *j, const struct as_view *v, uint32_t runtime)
{
    as_json_array(j, "size_classes");
    AS_FOR_ITEMS(const struct as_size_class_record, c, v->size_classes, v->size_class_count) {
        if (c->runtime != runtime)
            continue;
        AS_JSON_OBJECT(j, NULL, c, size, pools, in_use, free);
    }
    as_json_array_end(j);
}

static void put_spaces(struct as_json *j, const struct as_view *v, uint32_t runtime)
{
    as_json_array(j, "spaces");
    AS_FOR_ITEMS(const struct as_space_record, s, v->spaces, v->space_count) {
        if (s->runtime != runtime)
            continue;
        as_json_object(j, NULL);
        as_json_string(j, "name", as_view_string(v, s->name));
        AS_JSON_NUMBERS(j, s, used, committed);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_types(struct as_json *j, const struct as_view *v, uint32_t runtime)
{
    as_json_array(j, "types");
    AS_FOR_ITEMS(const struct as_type_record, t, v->types, v->type_count) {
        if (t->runtime != runtime)
            continue;
        as_json_object(j, NULL);
        as_json_string(j, "name", as_string_or_null(v, t->name));
        as_json_address(j, "address", t->address != 0 ? t->address : AS_UNKNOWN);
        AS_JSON_NUMBERS(j, t, count, tracked);
        as_json_number(j, "bytes", as_add(t->bytes, as_known(t->malloc_bytes)));
        as_json_number(j, "owned", as_add(t->owned_bytes, t->owned_malloc_bytes));
        as_json_number(j, "in_malloc", as_add(t->malloc_bytes, t->owned_malloc_bytes));
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

// The objects by class; null: their classes are not known.
static void put_classes(struct as_json *j, const struct as_view *v, uint32_t runtime)
{
    uint64_t count = 0, not_marked = 0, bytes = 0;
    AS_FOR_ITEMS(const struct as_class_record, c, v->classes, v->class_count) {
        if (c->runtime != runtime)
            continue;
        count++;
        not_marked = as_add(not_marked, c->not_marked);
        bytes = as_add(bytes, c->not_marked_bytes);
    }
    as_json_number(j, "not_marked", count > 0 ? not_marked : AS_UNKNOWN);
    as_json_number(j, "not_marked_bytes", count > 0 ? bytes : AS_UNKNOWN);
    if (count == 0) {
        as_json_null(j, "classes");
        return;
    }
    as_json_array(j, "classes");
    AS_FOR_ITEMS(const struct as_class_record, c, v->classes, v->class_count) {
        if (c->runtime != runtime)
            continue;
        as_json_object(j, NULL);
        as_json_string(j, "name", as_string_or_null(v, c->name));
        as_json_string(j, "kind", as_class_kind_name(c->kind));
        as_json_string(j, "type", as_string_or_null(v, v->types[c->type].name));
        as_json_address(j, "address", c->address != 0 ? c->address : AS_UNKNOWN);
        AS_JSON_NUMBERS(j, c, count, bytes);
        as_json_number(j, "owned", c->owned_malloc_bytes);
        AS_JSON_NUMBERS(j, c, not_marked, not_marked_bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_objects(struct as_json *j, const struct as_view *v, uint32_t runtime)
{
    const struct as_runtime_record *r = &v->runtimes[runtime];
    if (r->objects != AS_OBJECTS_COUNTED && r->objects != AS_OBJECTS_ESTIMATED) {
        as_json_null(j, "objects");
        return;
    }
    as_json_object(j, "objects");
    as_json_bool(j, "exact", r->objects == AS_OBJECTS_COUNTED);
    AS_JSON_NUMBERS(j, r, other_blocks, other_bytes);
    put_types(j, v, runtime);
    put_classes(j, v, runtime);
    as_json_object_end(j);
}

static void put_goroutines(struct as_json *j, const struct as_runtime_record *r)
{
    if (r->state != AS_REGIONS_FOUND || r->stacks == AS_UNKNOWN) {
        as_json_null(j, "goroutines");
        return;
    }
    as_json_object(j, "goroutines");
    as_json_number(j, "count", r->goroutines);
    as_json_number(j, "free", r->free_goroutines);
    AS_JSON_NUMBERS(j, r, stacks, stacks_resident);
    as_json_object_end(j);
}

struct slots {
    uint64_t size, pages, total, free;
};

// Ruby has some five sizes of slots; a file that claims to have more than these gets the rest of them left out of the list.
enum { MOST_SLOT_SIZES = 32 };

static void put_ruby(struct as_json *j, const struct as_view *v)
{
    if (v->meta->ruby != AS_RUBY_FOUND) {
        as_json_null(j, "ruby");
        return;
    }
    struct slots all = {0}, sizes[MOST_SLOT_SIZES] = {{0}};
    size_t count = 0;
    AS_FOR_ITEMS(const struct as_ruby_page_record, p, v->ruby, v->ruby_page_count) {
        size_t k = 0;
        while (k < count && sizes[k].size != p->slot_size)
            k++;
        if (k == count && count < MOST_SLOT_SIZES)
            sizes[count++].size = p->slot_size;
        struct slots *to[] = {&all, k < count ? &sizes[k] : NULL};
        for (size_t n = 0; n < 2 && to[n]; n++) {
            to[n]->pages++;
            to[n]->total += p->total_slots;
            to[n]->free += p->free_slots;
        }
    }
    as_json_object(j, "ruby");
    as_json_string(j, "releases", as_string_or_null(v, v->meta->ruby_releases));
    as_json_number(j, "pages", all.pages);
    as_json_number(j, "slots", all.total);
    as_json_number(j, "free_slots", all.free);
    as_json_array(j, "slot_sizes");
    for (size_t k = 0; k < count; k++) {
        as_json_object(j, NULL);
        as_json_number(j, "slot_size", sizes[k].size);
        as_json_number(j, "pages", sizes[k].pages);
        as_json_number(j, "slots", sizes[k].total);
        as_json_number(j, "free_slots", sizes[k].free);
        as_json_object_end(j);
    }
    as_json_array_end(j);
    uint32_t runtime = 0;
    while (runtime < v->runtime_count && v->runtimes[runtime].kind != AS_RUNTIME_RUBY)
        runtime++;
    if (runtime < v->runtime_count)
        put_objects(j, v, runtime);
    else
        as_json_null(j, "objects");
    as_json_object_end(j);
}

static void put_runtime(struct as_json *j, const struct as_view *v, uint32_t runtime)
{
    const struct as_runtime_record *r = &v->runtimes[runtime];
    uint32_t row = r->row;
    bool found = r->state == AS_REGIONS_FOUND;
    bool is_cpython = r->kind == AS_RUNTIME_CPYTHON; // whose records are older than the last two fields
    struct as_region_record sum = {0};
    uint64_t count = 0;
    AS_FOR_ITEMS(const struct as_region_record, region, v->regions, v->region_count) {
        if (region->runtime != runtime)
            continue;
        count++;
        sum.size = as_add(sum.size, region->size);
        sum.resident = as_add(sum.resident, region->resident);
        sum.in_use = as_add(sum.in_use, region->in_use);
        sum.free = as_add(sum.free, region->free);
        sum.empty = as_add(sum.empty, region->empty);
        sum.empty_resident = as_add(sum.empty_resident, region->empty_resident);
    }
    if (!found)
        memset(&sum, 0xff, sizeof sum); // all unknown
    as_json_object(j, NULL);
    as_json_string(j, "runtime", as_runtime_name(r->kind));
    as_json_string(j, "part", as_runtime_part_name(r->kind));
    as_json_string(j, "releases", as_string_or_null(v, r->releases));
    as_json_string(j, "row", row < AS_ROW_COUNT ? as_row_words[row].name : NULL);
    as_json_bool(j, "found", found);
    as_json_string(j, "evidence", as_string_or_null(v, r->evidence));
    as_json_number(j, "region_size", found ? r->region_size : AS_UNKNOWN);
    as_json_number(j, "pool_size", found ? r->pool_size : AS_UNKNOWN);
    as_json_number(j, "regions", found ? count : AS_UNKNOWN);
    AS_JSON_NUMBERS(j, &sum, size, resident);
    as_json_number(j, "used", is_cpython ? AS_UNKNOWN : r->used);
    as_json_number(j, "committed", is_cpython ? AS_UNKNOWN : r->committed);
    AS_JSON_NUMBERS(j, &sum, in_use, free, empty, empty_resident);
    AS_JSON_NUMBERS(j, r, traces, trace_bytes);
    put_size_classes(j, v, runtime);
    put_spaces(j, v, runtime);
    put_goroutines(j, r);
    put_objects(j, v, runtime);
    as_json_object_end(j);
}

static void put_runtimes(struct as_json *j, const struct as_view *v)
{
    as_json_array(j, "runtimes");
    for (uint64_t i = 0; i < v->runtime_count; i++)
        if (v->runtimes[i].kind != AS_RUNTIME_RUBY)
            put_runtime(j, v, (uint32_t)i);
    as_json_array_end(j);
}

void as_summary_runtimes(struct as_json *j, const struct as_view *v)
{
    put_ruby(j, v);
    put_runtimes(j, v);
}
