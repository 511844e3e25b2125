// SPDX-License-Identifier: MIT
#include "cli/graph_command.h"
#include "debuginfo/demangle.h"
#include "findings/humanize.h"
#include "recognisers/recognisers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool as_graph_snapshot_open(struct as_graph_snapshot *g, const struct as_options *o, struct as_error *err)
{
    *g = (struct as_graph_snapshot){.reader = {as_graph_read, &g->graph, as_graph_begin}};
    if (!as_snapshot_open(&g->snapshot, o->target, err))
        return false;
    g->snapshot.reader = &g->reader;
    if (g->snapshot.from_dump)
        return as_fail(err, AS_USAGE, "'%s' is a dump, which has no contents of memory: give a process or a core",
                       o->target);
    // Debug information is read where --layout-source allows it.
    return as_graph_open(&g->graph, g->snapshot.target, as_recognisers, o->allowed_sources >> AS_LAYOUT_DWARF & 1, err);
}

static bool add_records(void *context, struct as_store *s, struct as_error *err)
{
    struct as_graph_snapshot *g = context;
    return s->mallocs.count == 0 ||
           (as_graph_find_all_types(&g->graph, err) &&
            as_graph_add_records(s, &g->graph, g->snapshot.target, g->snapshot.baseline, &g->snapshot.noted, err));
}

void as_graph_snapshot_add_records(struct as_graph_snapshot *g)
{
    g->more = (struct as_snapshot_more){add_records, g};
    g->snapshot.more = &g->more;
}

bool as_graph_snapshot_open_if_asked(struct as_graph_snapshot *g, const struct as_options *o, struct as_error *err)
{
    if (!o->graph)
        return as_snapshot_open(&g->snapshot, o->target, err);
    bool ok = as_graph_snapshot_open(g, o, err);
    as_graph_snapshot_add_records(g);
    return ok;
}

bool as_graph_snapshot_take(struct as_graph_snapshot *g, const struct as_options *o, struct as_error *err)
{
    return as_snapshot_take(&g->snapshot, o, NULL, false, err) && as_snapshot_needs_glibc(&g->snapshot, o, err);
}

void as_graph_snapshot_close(struct as_graph_snapshot *g)
{
    as_graph_free(&g->graph);
    as_snapshot_close(&g->snapshot);
}

bool as_graph_is_exact(const struct as_graph_snapshot *g)
{
    return g->snapshot.view.meta->flags & AS_META_EXACT && as_graph_is_whole(&g->graph);
}

enum { LEFT_OUT = 1100, SHOWN = 200 }; // characters; of a path, of its end

static const char *missing_files(const struct as_graph_snapshot *g, char text[LEFT_OUT])
{
    const struct as_modules *modules = &g->graph.modules;
    const struct as_target *t = g->snapshot.target;
    const char *debug = as_dwarf_files_left_out(&g->graph.files);
    if (modules->missing == 0)
        return debug;
    const char *path = as_mapping_path(t, &t->mappings.items[modules->first_missing]);
    size_t bytes = strlen(path);
    int length = snprintf(text, LEFT_OUT,
                          "what the core leaves out of %s cannot be read, as the file is not here, or not the same",
                          bytes > SHOWN ? path + bytes - SHOWN : path);
    if (modules->missing > 1)
        length += snprintf(text + length, LEFT_OUT - (size_t)length, "; so it is with %" PRIu32 " more files",
                           modules->missing - 1);
    if (debug)
        snprintf(text + length, LEFT_OUT - (size_t)length, "; %s", debug);
    return text;
}

// Why types are missing that could be known; NULL: none is.
static const char *left_out(const struct as_graph_snapshot *g, char text[LEFT_OUT])
{
    char files[LEFT_OUT];
    const char *missing = missing_files(g, files);
    if (g->graph.typing.unfollowed == 0 && !missing)
        return NULL;
    int length = missing ? snprintf(text, LEFT_OUT, "%s", missing) : 0;
    if (g->graph.typing.unfollowed > 0 && length < LEFT_OUT)
        snprintf(text + length, LEFT_OUT - (size_t)length,
                 "%s%" PRIu64 " pointers were not followed: they lie 8 GiB or more behind a chunk's beginning, or are "
                 "too many",
                 missing ? "; " : "", g->graph.typing.unfollowed);
    return text;
}

void as_graph_put_head(struct as_json *j, const struct as_graph_snapshot *g)
{
    char text[LEFT_OUT];
    const struct as_view *v = &g->snapshot.view;
    const struct as_objects *objects = &g->graph.objects;
    as_json_snapshot(j, v);
    as_json_milliseconds(j, "pause_ms", v->meta->pause_ns);
    as_json_bool(j, "exact", as_graph_is_exact(g));
    as_json_object(j, "graph");
    as_json_number(j, "chunks", g->graph.index.chunks);
    as_json_number(j, "bytes", g->graph.index.chunk_bytes);
    as_json_counts(j, "objects", g->graph.objects.blocks, g->graph.objects.bytes);
    as_json_counts(j, "mappings", g->graph.index.mapped.count, as_index_mapped_bytes(&g->graph.index));
    as_json_number(j, "pointers", g->graph.edges.pointers);
    as_json_number(j, "roots", g->graph.roots.list.count);
    as_json_number(j, "unread", g->graph.edges.unread);
    as_json_number(j, "unsearched", g->graph.roots.unsearched);
    as_json_string(j, "left_out", left_out(g, text));
    as_json_string(j, "collector_off",
                   !objects->collector_off                   ? NULL
                   : objects->evidence == AS_OBJECTS_OF_RUBY ? "ruby"
                                                             : "cpython");
    as_json_object_end(j);
    as_json_array(j, "warnings");
    for (uint64_t i = 0; i < v->warning_count; i++)
        as_json_string(j, NULL, as_view_string(v, v->warnings[i].text));
    as_json_array_end(j);
}

const char *as_graph_type_text(const struct as_graph_snapshot *g, uint32_t type, size_t columns,
                               char text[AS_GRAPH_NAME])
{
    char name[AS_GRAPH_NAME];
    const char *known = as_graph_type_name(&g->graph, type, name, sizeof name);
    return known ? as_safe_text(known, AS_GRAPH_NAME, columns, true, text, AS_GRAPH_NAME) : "type not known";
}

void as_graph_put_type(struct as_json *j, const struct as_graph_snapshot *g, uint32_t type)
{
    char text[AS_GRAPH_NAME];
    as_json_string(j, "type", as_graph_type_name(&g->graph, type, text, sizeof text));
    as_json_string(j, "evidence", as_evidence_name(as_graph_type_evidence(&g->graph, type)));
}

void as_graph_print_head(const struct as_graph_snapshot *g)
{
    const struct as_view *v = &g->snapshot.view;
    char text[AS_GRAPH_NAME];
    char objects[2 * (AS_SIZE_TEXT + 64)] = "";
    if (g->graph.objects.blocks > 0)
        snprintf(objects, sizeof objects, " (%s in %" PRIu64 " objects)", as_size_text(g->graph.objects.bytes).text,
                 g->graph.objects.blocks);
    if (g->graph.index.mapped.count > 0)
        snprintf(objects + strlen(objects), sizeof objects - strlen(objects), " (%s in %zu anonymous mappings)",
                 as_size_text(as_index_mapped_bytes(&g->graph.index)).text, g->graph.index.mapped.count);
    printf("%s (pid %" PRIu32 "): %" PRIu32 " chunks in use, %s%s, %" PRIu64 " pointers between them\n",
           as_safe_text(v->meta->comm, sizeof v->meta->comm, 32, true, text, sizeof text), v->meta->pid,
           g->graph.index.chunks, as_size_text(g->graph.index.chunk_bytes).text, objects, g->graph.edges.pointers);
    if (g->graph.objects.collector_off)
        printf("%s\n",
               g->graph.objects.evidence == AS_OBJECTS_OF_RUBY
                   ? "Ruby's collector is switched off (GC.disable): garbage stays until GC.start."
                   : "Python's collector is switched off (gc.disable): garbage in cycles stays until gc.collect().");
    for (uint64_t i = 0; i < v->warning_count && !as_graph_is_exact(g); i++)
        if (v->warnings[i].code != AS_WARN_NOTE)
            printf("not exact: %s\n",
                   as_safe_text(as_view_string(v, v->warnings[i].text), SIZE_MAX, 1000, true, text, sizeof text));
    if (g->graph.edges.unread > 0)
        printf("not exact: %s of the heaps could not be read\n", as_size_text(g->graph.edges.unread).text);
    if (g->graph.roots.unsearched > 0)
        printf("not exact: %s of shared memory were not searched; --mode freeze searches them\n",
               as_size_text(g->graph.roots.unsearched).text);
    if (g->graph.roots.running)
        printf("not exact: shared memory, or memory that no child inherits, was read while the process ran on\n");
    char why[LEFT_OUT];
    const char *missing = left_out(g, why);
    if (missing)
        printf("types unknown: %s\n", as_safe_text(missing, LEFT_OUT, LEFT_OUT, true, text, sizeof text));
    if (v->meta->mode == AS_MODE_LIVE)
        printf("not exact: the process ran on while it was read\n");
}

uint64_t as_graph_example(const struct as_graph_snapshot *g, uint32_t node)
{
    uint64_t begins = node == AS_NO_NODE ? AS_UNKNOWN : as_index_address(&g->graph.index, node);
    return begins == AS_UNKNOWN ? AS_UNKNOWN : begins + AS_HEADER;
}

void as_graph_put_owner(struct as_json *j, struct as_graph_snapshot *g, const struct as_owners *owners, uint32_t owner)
{
    if (owner == AS_NO_OWNER) {
        as_json_null(j, "owner");
        return;
    }
    const struct as_owner none = {.source = UINT32_MAX, .address = AS_UNKNOWN};
    const struct as_owner *o = owner == AS_SEVERAL_OWNERS ? &none : &owners->list.items[owner];
    const struct as_root_source nowhere = {.mapping = UINT32_MAX, .thread = UINT32_MAX, .module = UINT32_MAX};
    const struct as_root_source *source = o == &none ? &nowhere : &g->graph.roots.sources.items[o->source];
    const struct as_target *t = g->snapshot.target;
    const struct as_modules *modules = &g->graph.modules;
    const struct as_module *module = source->module != UINT32_MAX ? &modules->list.items[source->module] : NULL;
    const struct as_thread *thread = source->thread < t->threads.count ? &t->threads.items[source->thread] : NULL;
    bool mapped = source->mapping < t->mappings.count && !module;
    char text[AS_GRAPH_NAME];
    as_json_object(j, "owner");
    as_json_string(j, "kind", o == &none ? "several" : as_owner_kind_name(o, &g->graph.roots));
    as_json_string(j, "name",
                   o->name ? as_name_demangled(as_strings_at(&owners->names, o->name), false, text, sizeof text)
                           : NULL);
    as_json_string(j, "type", o == &none ? NULL : as_graph_variable_type(&g->graph, o, text, sizeof text));
    bool addressed = o != &none && as_owner_has_address(o, &g->graph.roots);
    as_json_address(j, "address", addressed ? o->address : AS_UNKNOWN);
    as_json_string(j, "module", module ? as_module_name(modules, module) : NULL);
    as_json_address(j, "offset", module && addressed ? o->address - module->base : AS_UNKNOWN);
    as_json_number(j, "thread", thread ? (uint64_t)thread->tid : AS_UNKNOWN);
    as_json_text(j, "thread_name", thread ? thread->name : NULL, thread ? sizeof thread->name : 0);
    as_json_string(j, "mapping", mapped ? as_mapping_path(t, &t->mappings.items[source->mapping]) : NULL);
    as_json_object_end(j);
}

static const char *const kind_texts[AS_ROOT_KINDS] = {
    [AS_ROOT_GLOBAL] = "variable",
    [AS_ROOT_THREAD] = "thread-local variables of",
    [AS_ROOT_RUNTIME] = "heaps of runtimes (Ruby, Java, ...)",
    [AS_ROOT_MEMORY] = "anonymous memory",
    [AS_ROOT_SHARED] = "shared memory",
    [AS_ROOT_REGISTER] = "registers of",
    [AS_ROOT_STACK] = "stack of",
    [AS_ROOT_FRAMES] = "frames of Python functions",
    [AS_ROOT_UNREACHED] = "nothing: garbage not yet collected, or held in an unknown way",
};

const char *as_graph_owner_text(struct as_graph_snapshot *g, const struct as_owners *owners, uint32_t owner,
                                char text[AS_GRAPH_NAME])
{
    const struct as_owner *o = &owners->list.items[owner];
    const struct as_root_source *source = &g->graph.roots.sources.items[o->source];
    const struct as_target *t = g->snapshot.target;
    char name[AS_GRAPH_NAME], safe[AS_GRAPH_NAME], where[AS_GRAPH_NAME / 4];
    const char *kind = kind_texts[source->kind];
    if (o->united) {
        const char *module = source->module != UINT32_MAX
                                 ? as_module_name(&g->graph.modules, &g->graph.modules.list.items[source->module])
                                 : "";
        snprintf(text, AS_GRAPH_NAME, "the interpreter (%.300s)",
                 as_safe_text(module, SIZE_MAX, 80, true, where, sizeof where));
    } else if (source->kind == AS_ROOT_GLOBAL && source->module != UINT32_MAX) {
        const struct as_module *m = &g->graph.modules.list.items[source->module];
        as_safe_text(as_module_name(&g->graph.modules, m), SIZE_MAX, 80, true, where, sizeof where);
        safe[0] = '\0';
        if (o->name != 0) {
            as_name_demangled(as_strings_at(&owners->names, o->name), false, name, sizeof name);
            as_safe_text(name, sizeof name, 120, true, safe, sizeof safe);
        }
        const char *type = as_graph_variable_type(&g->graph, o, name, sizeof name);
        char of[AS_GRAPH_NAME / 4];
        snprintf(text, AS_GRAPH_NAME, "%s%s%.400s (%.300s+0x%" PRIx64 ")%s%.600s", kind, safe[0] ? " " : "", safe,
                 where, o->address - m->base, type ? ": " : "",
                 type ? as_safe_text(type, AS_GRAPH_NAME, 120, true, of, sizeof of) : "");
    } else if (source->thread != UINT32_MAX && source->thread < t->threads.count) {
        const struct as_thread *thread = &t->threads.items[source->thread];
        as_safe_text(thread->name, sizeof thread->name, 32, true, safe, sizeof safe);
        snprintf(text, AS_GRAPH_NAME, "%s thread %d (%.200s)", kind, (int)thread->tid, safe);
    } else if (source->kind == AS_ROOT_RUNTIME || source->kind == AS_ROOT_UNREACHED) {
        snprintf(text, AS_GRAPH_NAME, "%s", kind);
    } else {
        snprintf(text, AS_GRAPH_NAME, "%s%s at 0x%" PRIx64, kind,
                 source->kind == AS_ROOT_THREAD ? " the main thread" : "", o->address);
    }
    return text;
}
