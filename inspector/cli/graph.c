// SPDX-License-Identifier: MIT
#include "cli/graph.h"
#include "cli/names.h"
#include "cli/text.h"
#include "config.h"
#include "graph/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool as_graph_look_open(struct as_graph_look *g, const struct as_options *o, struct as_error *err)
{
    *g = (struct as_graph_look){.reader = {as_graph_read, &g->graph}};
    if (!as_look_open(&g->look, o->target, err))
        return false;
    g->look.reader = &g->reader;
    return !g->look.from_dump ||
           as_fail(err, AS_USAGE, "'%s' is a dump, which has no contents of memory: give a process or a core",
                   o->target);
}

bool as_graph_look_take(struct as_graph_look *g, const struct as_options *o, struct as_error *err)
{
    return as_look_take(&g->look, o, NULL, false, err) && as_look_needs_glibc(&g->look, o, err);
}

void as_graph_look_close(struct as_graph_look *g)
{
    as_graph_free(&g->graph);
    as_look_close(&g->look);
}

bool as_graph_is_exact(const struct as_graph_look *g)
{
    return g->look.view.meta->flags & AS_META_EXACT && g->graph.edges.unread == 0 && !g->graph.roots.running &&
           g->graph.roots.unsearched == 0;
}

void as_graph_put_head(struct as_json *j, const char *schema, const struct as_graph_look *g)
{
    const struct as_view *v = &g->look.view;
    as_json_string(j, "schema", schema);
    as_json_string(j, "version", AS_VERSION);
    as_json_time(j, "time", v->meta->time_ns);
    as_json_object(j, "target");
    as_json_string(j, "kind", as_target_kind_name(v->meta->target_kind));
    as_json_number(j, "pid", v->meta->pid ? v->meta->pid : AS_UNKNOWN);
    as_json_text(j, "comm", v->meta->comm, sizeof v->meta->comm);
    as_json_object_end(j);
    as_json_string(j, "mode", as_mode_name(v->meta->mode));
    as_json_milliseconds(j, "pause_ms", v->meta->pause_ns);
    as_json_bool(j, "exact", as_graph_is_exact(g));
    as_json_object(j, "graph");
    as_json_number(j, "chunks", g->graph.index.chunks);
    as_json_number(j, "bytes", g->graph.index.chunk_bytes);
    as_json_number(j, "pointers", g->graph.edges.to.count);
    as_json_number(j, "roots", g->graph.roots.list.count);
    as_json_number(j, "unread", g->graph.edges.unread);
    as_json_number(j, "unsearched", g->graph.roots.unsearched);
    as_json_object_end(j);
    as_json_array(j, "warnings");
    for (uint64_t i = 0; i < v->warning_count; i++)
        as_json_string(j, NULL, as_view_string(v, v->warnings[i].text));
    as_json_array_end(j);
}

const char *as_graph_type_name(const struct as_graph_look *g, uint32_t type, char text[AS_GRAPH_NAME])
{
    if (type < AS_PATTERNS)
        return as_pattern_name((enum as_pattern)type);
    const struct as_vtable *v = &g->graph.vtables.list.items[type - AS_PATTERNS];
    if (v->name == 0)
        return NULL;
    return as_name_demangled(as_strings_at(&g->graph.vtables.names, v->name), true, text, AS_GRAPH_NAME);
}

const char *as_graph_type_text(const struct as_graph_look *g, uint32_t type, size_t columns, char text[AS_GRAPH_NAME])
{
    char name[AS_GRAPH_NAME];
    const char *known = as_graph_type_name(g, type, name);
    return known ? as_safe_text(known, AS_GRAPH_NAME, columns, true, text, AS_GRAPH_NAME) : "?";
}

void as_graph_put_type(struct as_json *j, const struct as_graph_look *g, uint32_t type)
{
    char text[AS_GRAPH_NAME];
    const char *name = as_graph_type_name(g, type, text);
    as_json_string(j, "type", name);
    as_json_string(j, "evidence", !name ? NULL : type < AS_PATTERNS ? "pattern" : "vtable");
}

void as_graph_print_head(const struct as_graph_look *g)
{
    const struct as_view *v = &g->look.view;
    char text[AS_GRAPH_NAME], bytes[AS_SIZE_TEXT];
    printf("%s (pid %" PRIu32 "): %" PRIu32 " chunks in use, %s, %zu pointers between them\n",
           as_safe_text(v->meta->comm, sizeof v->meta->comm, 32, true, text, sizeof text), v->meta->pid,
           g->graph.index.chunks, as_format_size(g->graph.index.chunk_bytes, bytes), g->graph.edges.to.count);
    for (uint64_t i = 0; i < v->warning_count && !as_graph_is_exact(g); i++)
        if (v->warnings[i].code != AS_WARN_NOTE)
            printf("not exact: %s\n",
                   as_safe_text(as_view_string(v, v->warnings[i].text), SIZE_MAX, 1000, true, text, sizeof text));
    if (g->graph.edges.unread > 0)
        printf("not exact: %s of chunks could not be read\n", as_format_size(g->graph.edges.unread, bytes));
    if (g->graph.roots.unsearched > 0)
        printf("not exact: %s of shared memory were not searched; --mode freeze searches them\n",
               as_format_size(g->graph.roots.unsearched, bytes));
    if (g->graph.roots.running)
        printf("not exact: shared memory, or memory that no child inherits, was read while the process ran on\n");
    if (v->meta->mode == AS_MODE_LIVE)
        printf("not exact: the process ran on while it was read\n");
}

static const char *const kinds[AS_ROOT_KINDS] = {
    [AS_ROOT_GLOBAL] = "variable", [AS_ROOT_THREAD] = "thread_variables", [AS_ROOT_RUNTIME] = "runtime",
    [AS_ROOT_MEMORY] = "memory",   [AS_ROOT_SHARED] = "shared_memory",    [AS_ROOT_REGISTER] = "registers",
    [AS_ROOT_STACK] = "stack",
};

void as_graph_put_owner(struct as_json *j, const struct as_graph_look *g, const struct as_owners *owners,
                        uint32_t owner)
{
    if (owner == AS_NO_OWNER) {
        as_json_null(j, "owner");
        return;
    }
    const struct as_owner none = {.source = UINT32_MAX, .address = AS_UNKNOWN};
    const struct as_owner *o = owner == AS_SEVERAL_OWNERS ? &none : &owners->list.items[owner];
    const struct as_root_source nowhere = {.mapping = UINT32_MAX, .thread = UINT32_MAX, .module = UINT32_MAX};
    const struct as_root_source *source = o == &none ? &nowhere : &g->graph.roots.sources.items[o->source];
    const struct as_target *t = g->look.target;
    const struct as_modules *modules = &g->graph.roots.modules;
    const struct as_module *module = source->module != UINT32_MAX ? &modules->list.items[source->module] : NULL;
    const struct as_thread *thread = source->thread < t->threads.count ? &t->threads.items[source->thread] : NULL;
    bool mapped = source->mapping < t->mappings.count && !module;
    char text[AS_GRAPH_NAME];
    as_json_object(j, "owner");
    as_json_string(j, "kind", o == &none ? "several" : kinds[source->kind]);
    as_json_string(j, "name",
                   o->name ? as_name_demangled(as_strings_at(&owners->names, o->name), false, text, sizeof text)
                           : NULL);
    as_json_address(j, "address", source->kind == AS_ROOT_REGISTER ? AS_UNKNOWN : o->address);
    as_json_string(j, "module", module ? as_module_name(modules, module) : NULL);
    as_json_address(j, "offset", module ? o->address - module->base : AS_UNKNOWN);
    as_json_number(j, "thread", thread ? (uint64_t)thread->tid : AS_UNKNOWN);
    as_json_text(j, "thread_name", thread ? thread->name : NULL, thread ? sizeof thread->name : 0);
    as_json_string(j, "mapping", mapped ? as_mapping_path(t, &t->mappings.items[source->mapping]) : NULL);
    as_json_object_end(j);
}

static const char *const kind_texts[AS_ROOT_KINDS] = {
    [AS_ROOT_GLOBAL] = "variable",
    [AS_ROOT_THREAD] = "thread-local variables of",
    [AS_ROOT_RUNTIME] = "heaps of runtimes (Python, Ruby, ...)",
    [AS_ROOT_MEMORY] = "anonymous memory",
    [AS_ROOT_SHARED] = "shared memory",
    [AS_ROOT_REGISTER] = "registers of",
    [AS_ROOT_STACK] = "stack of",
};

const char *as_graph_owner_text(const struct as_graph_look *g, const struct as_owners *owners, uint32_t owner,
                                char text[AS_GRAPH_NAME])
{
    const struct as_owner *o = &owners->list.items[owner];
    const struct as_root_source *source = &g->graph.roots.sources.items[o->source];
    const struct as_target *t = g->look.target;
    char name[AS_GRAPH_NAME], safe[AS_GRAPH_NAME], where[AS_GRAPH_NAME / 4];
    const char *kind = kind_texts[source->kind];
    if (source->kind == AS_ROOT_GLOBAL && source->module != UINT32_MAX) {
        const struct as_module *m = &g->graph.roots.modules.list.items[source->module];
        as_safe_text(as_module_name(&g->graph.roots.modules, m), SIZE_MAX, 80, true, where, sizeof where);
        safe[0] = '\0';
        if (o->name != 0) {
            as_name_demangled(as_strings_at(&owners->names, o->name), false, name, sizeof name);
            as_safe_text(name, sizeof name, 120, true, safe, sizeof safe);
        }
        snprintf(text, AS_GRAPH_NAME, "%s%s%.400s (%.300s+0x%" PRIx64 ")", kind, safe[0] ? " " : "", safe, where,
                 o->address - m->base);
    } else if (source->thread != UINT32_MAX && source->thread < t->threads.count) {
        const struct as_thread *thread = &t->threads.items[source->thread];
        as_safe_text(thread->name, sizeof thread->name, 32, true, safe, sizeof safe);
        snprintf(text, AS_GRAPH_NAME, "%s thread %d (%.200s)", kind, (int)thread->tid, safe);
    } else if (source->kind == AS_ROOT_RUNTIME) {
        snprintf(text, AS_GRAPH_NAME, "%s", kind);
    } else {
        snprintf(text, AS_GRAPH_NAME, "%s%s at 0x%" PRIx64, kind,
                 source->kind == AS_ROOT_THREAD ? " the main thread" : "", o->address);
    }
    return text;
}
