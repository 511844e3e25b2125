// SPDX-License-Identifier: MIT
#include "cli/not_searched.h"
#include "findings/humanize.h"
#include "findings/runtime_names.h"
#include "ledger/ledger.h"

#include <stdio.h>
#include <string.h>

static void add_name(struct as_not_searched *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->names[i], name) == 0)
            return;
    if (n->count < AS_HEAP_NAMES)
        n->names[n->count++] = name;
}

// Adds a row's bytes, and who has them. None: no name; what has no bytes is named neither.
static void add_row(struct as_not_searched *n, const struct as_view *v, uint32_t row)
{
    uint64_t bytes = as_row_value(&v->totals->ledger, row);
    n->bytes = as_add(n->bytes, bytes);
    for (uint64_t i = 0; i < v->runtime_count && bytes > 0; i++) {
        const char *name = as_runtime_name(v->runtimes[i].kind);
        if (v->runtimes[i].row == row && name)
            add_name(n, name);
    }
}

// Objects of an interpreter that were not found lie in malloc's chunks, or in anonymous memory.
static void add_unfound(struct as_not_searched *n, const struct as_view *v, bool python)
{
    for (uint64_t i = 0; i < v->runtime_count; i++)
        if (v->runtimes[i].kind == AS_RUNTIME_CPYTHON && v->runtimes[i].state == AS_REGIONS_UNPROVEN && !python &&
            n->unfound_count == 0)
            n->unfound[n->unfound_count++] = "cpython";
    if (v->meta->ruby == AS_RUBY_UNPROVEN)
        n->unfound[n->unfound_count++] = "ruby";
}

struct as_not_searched as_not_searched_find(const struct as_graph_snapshot *g, bool collected)
{
    const struct as_view *v = &g->snapshot.view;
    uint32_t row = as_row_of_malloc(v);
    bool other = v->meta->malloc_kind != AS_MALLOC_GLIBC;
    struct as_not_searched n = {.searched = g->graph.index.chunk_bytes};
    add_row(&n, v, AS_ROW_other_malloc);
    if (collected || (other && row == AS_ROW_managed))
        add_row(&n, v, AS_ROW_managed);
    if (other && row == AS_ROW_other_anon)
        add_row(&n, v, AS_ROW_other_anon); // where that malloc's memory must be
    if (other && n.bytes > 0)
        add_name(&n, as_malloc_kind_name(v->meta->malloc_kind));
    const struct as_objects *objects = &g->graph.objects;
    add_unfound(&n, v, objects->of_node && objects->evidence == AS_OBJECTS_OF_PYTHON);
    // What was not found may be of any size. In a core all numbers may be unknown, of memory that nobody has, too.
    n.larger = n.bytes == AS_UNKNOWN ? n.count > 0 : n.bytes > n.searched;
    return n;
}

// "137.2 MiB of jemalloc"; "anonymous memory" stands for a malloc that is not known.
static const char *text_of(const struct as_not_searched *n, char text[256])
{
    int length = snprintf(text, 256, "%s", n->bytes == AS_UNKNOWN ? "memory" : as_size_text(n->bytes).text);
    for (size_t i = 0; i < n->count; i++)
        length += snprintf(text + length, 256 - (size_t)length, "%s%.20s", i == 0 ? " of " : ", ", n->names[i]);
    return text;
}

void as_not_searched_print(const struct as_not_searched *n)
{
    char text[256];
    if (n->larger)
        printf("Not searched: %s. This %s the larger part; what follows leaves it out.\n", text_of(n, text),
               n->bytes == AS_UNKNOWN ? "may be" : "is");
    for (size_t i = 0; i < n->unfound_count; i++)
        printf(
            "The objects of %s were not found: what follows has chunks of malloc. The warnings of summary say more.\n",
            n->unfound[i]);
}

void as_not_searched_put(struct as_json *j, const struct as_not_searched *n)
{
    as_json_object(j, "not_searched");
    as_json_number(j, "bytes", n->bytes);
    as_json_bool(j, "larger", n->larger);
    as_json_array(j, "heaps");
    for (size_t i = 0; i < n->count; i++)
        as_json_string(j, NULL, n->names[i]);
    as_json_array_end(j);
    as_json_array(j, "objects_of");
    for (size_t i = 0; i < n->unfound_count; i++)
        as_json_string(j, NULL, n->unfound[i]);
    as_json_array_end(j);
    as_json_object_end(j);
}

bool as_not_searched_judge(const struct as_not_searched *n, struct as_error *err)
{
    char text[256];
    return !n->larger ||
           as_fail(err, AS_PARTIAL,
                   "%s could not be searched, and %s was: this answer %s about the smaller part; "
                   "summary shows all memory",
                   text_of(n, text), as_size_text(n->searched).text, n->bytes == AS_UNKNOWN ? "may be" : "is");
}
