// SPDX-License-Identifier: MIT
// The member "graph" of the summary: of a dump that has one, what holds most.
#include "cli/json.h"
#include "cli/summary/summary.h"

#include <string.h>

enum { MOST = 10 };

static void offer(struct as_largest *l, uint64_t index, uint64_t value)
{
    if (value > 0)
        as_largest_offer(l, index, value);
}

static void put_type(struct as_json *j, const struct as_view *v, uint32_t type)
{
    const struct as_graph_type_record *t = type < v->graph_type_count ? &v->graph_types[type] : NULL;
    as_json_string(j, "type", t ? as_string_or_null(v, t->name) : NULL);
    as_json_string(j, "evidence", t ? as_string_or_null(v, t->evidence) : NULL);
}

static const char *thread_name(const struct as_view *v, uint32_t tid)
{
    for (uint64_t i = 0; i < v->thread_count; i++)
        if (v->threads[i].tid == tid)
            return v->threads[i].name;
    return NULL;
}

static void put_owner(struct as_json *j, const struct as_view *v, uint32_t owner)
{
    if (owner >= v->graph_owner_count) {
        as_json_null(j, "owner");
        return;
    }
    const struct as_graph_owner_record *o = &v->graph_owners[owner];
    const char *thread = o->thread != 0 ? thread_name(v, o->thread) : NULL;
    as_json_object(j, "owner");
    as_json_string(j, "kind", as_view_string(v, o->kind));
    as_json_string(j, "name", as_string_or_null(v, o->name));
    as_json_string(j, "type", as_string_or_null(v, o->type));
    as_json_address(j, "address", o->address);
    as_json_string(j, "module", as_string_or_null(v, o->module));
    as_json_address(j, "offset", o->offset);
    as_json_number(j, "thread", o->thread != 0 ? o->thread : AS_UNKNOWN);
    as_json_text(j, "thread_name", thread, thread ? sizeof v->threads[0].name : 0);
    as_json_string(j, "mapping", as_string_or_null(v, o->mapping));
    as_json_object_end(j);
}

static void put_types(struct as_json *j, const struct as_view *v)
{
    struct as_largest l = {.most = MOST};
    for (uint64_t i = 0; i < v->graph_type_count; i++)
        offer(&l, i, v->graph_types[i].name != 0 ? v->graph_types[i].bytes : 0);
    as_json_array(j, "types");
    for (uint32_t i = 0; i < l.count; i++) {
        const struct as_graph_type_record *t = &v->graph_types[l.index[i]];
        as_json_object(j, NULL);
        put_type(j, v, (uint32_t)l.index[i]);
        AS_JSON_NUMBERS(j, t, count, bytes, retained);
        AS_JSON_OBJECT(j, "pinned", &t->pinned, pages, stranded, part);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_owners(struct as_json *j, const struct as_view *v)
{
    struct as_largest l = {.most = MOST};
    for (uint64_t i = 0; i < v->graph_owner_count; i++)
        offer(&l, i, v->graph_owners[i].retained);
    as_json_array(j, "owners");
    for (uint32_t i = 0; i < l.count; i++) {
        as_json_object(j, NULL);
        put_owner(j, v, (uint32_t)l.index[i]);
        as_json_number(j, "retained", l.value[i]);
        AS_JSON_OBJECT(j, "pinned", &v->graph_owners[l.index[i]].pinned, pages, stranded, part);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

// Who leads to what several owners have together.
static void put_several(struct as_json *j, const struct as_view *v)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < v->graph_owner_count; i++)
        if (strcmp(as_view_string(v, v->graph_owners[i].kind), "several") == 0)
            bytes += v->graph_owners[i].retained;
    as_json_object(j, "several");
    as_json_number(j, "bytes", bytes);
    as_json_number(j, "owners", v->graph_leading_count > 0 ? v->graph_leading[0].owners : 0);
    as_json_number(j, "asked", v->graph[0].asked);
    as_json_array(j, "leading");
    for (uint64_t i = 0; i < v->graph_leading_count && i < MOST; i++) {
        as_json_object(j, NULL);
        put_owner(j, v, v->graph_leading[i].owner);
        as_json_number(j, "bytes", v->graph_leading[i].bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
    as_json_object_end(j);
}

// Those that have most of the stranded bytes, alone on a page or with others.
static void put_page_users(struct as_json *j, const struct as_view *v)
{
    struct as_largest l = {.most = MOST};
    for (uint64_t i = 0; i < v->graph_page_user_count; i++)
        offer(&l, i, v->graph_page_users[i].pinned.stranded + v->graph_page_users[i].pinned.part);
    as_json_array(j, "pins");
    for (uint32_t i = 0; i < l.count; i++) {
        const struct as_graph_page_user_record *h = &v->graph_page_users[l.index[i]];
        as_json_object(j, NULL);
        put_type(j, v, h->type);
        put_owner(j, v, h->owner);
        AS_JSON_NUMBERS(j, h, count, bytes);
        AS_JSON_OBJECT(j, "pinned", &h->pinned, pages, stranded, part);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static uint64_t typed_bytes(const struct as_view *v)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < v->graph_type_count; i++)
        sum += v->graph_types[i].name != 0 ? v->graph_types[i].bytes : 0;
    return sum;
}

void as_summary_graph(struct as_json *j, const struct as_view *v)
{
    if (v->graph_count == 0) {
        as_json_null(j, "graph");
        return;
    }
    const struct as_graph_record *g = &v->graph[0];
    as_json_object(j, "graph");
    as_json_bool(j, "exact", g->flags & AS_GRAPH_EXACT);
    AS_JSON_NUMBERS(j, g, chunks, bytes);
    as_json_counts(j, "objects", g->objects, g->object_bytes);
    if (g->mappings == AS_UNKNOWN) // a file of an older version
        as_json_null(j, "mappings");
    else
        as_json_counts(j, "mappings", g->mappings, g->mapping_bytes);
    as_json_number(j, "typed", typed_bytes(v));
    AS_JSON_NUMBERS(j, g, reached, unreached);
    AS_JSON_OBJECT(j, "direct", &g->direct, count, bytes);
    AS_JSON_OBJECT(j, "indirect", &g->indirect, count, bytes);
    AS_JSON_OBJECT(j, "suspects", &g->suspects, count, bytes);
    put_types(j, v);
    put_owners(j, v);
    put_several(j, v);
    put_page_users(j, v);
    as_json_object_end(j);
}
