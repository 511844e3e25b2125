// SPDX-License-Identifier: MIT
// What the application holds, and what is not in Rss.
#include "findings/facts.h"

#include <stdio.h>
#include <string.h>

// One size that has so much of what is in use, in so many chunks, may be a leak.
#define MOST 0.5
enum { MANY = 10000 };

// The graph, if the snapshot has one; of a process that ran on it tells no facts.
static const struct as_graph_record *graph_of(const struct as_facts *f)
{
    const struct as_graph_record *g = f->view->graph_count > 0 ? &f->view->graph[0] : NULL;
    return g && g->flags & AS_GRAPH_EXACT ? g : NULL;
}

// " of 147.9 MiB allocated, with 2.0 MiB mapped": what chunks' sizes, types and owners are a part of. "": not known.
static void say_allocated(struct as_finding *out, uint64_t bytes, const struct as_graph_record *g)
{
    if (bytes == AS_UNKNOWN)
        return;
    as_say(out, " of %s allocated", AS_SIZE(bytes));
    if (g && g->objects > 0)
        as_say(out, ", with the objects of the runtime");
    if (g && as_any(g->mapping_bytes))
        as_say(out, ", with %s mapped", AS_SIZE(g->mapping_bytes));
}

// The type whose chunks hold most, if they hold more than `least`: a size says less. A runtime's objects are not what the finding is
// about.
static const struct as_graph_type_record *largest_type(const struct as_facts *f, double least)
{
    const struct as_view *v = f->view;
    const struct as_graph_record *g = graph_of(f);
    const struct as_graph_type_record *most = NULL;
    for (uint64_t i = 0; g && g->objects == 0 && i < v->graph_type_count; i++) {
        const struct as_graph_type_record *t = &v->graph_types[i];
        bool is_chunks = *as_view_string(v, t->name) && strcmp(as_view_string(v, t->evidence), "mapping") != 0;
        if (is_chunks && (!most || t->bytes > most->bytes))
            most = t;
    }
    return most && (double)most->bytes > least ? most : NULL;
}

static void say_type(const struct as_facts *f, struct as_finding *out, const struct as_graph_type_record *t)
{
    char name[AS_NAME];
    const struct as_graph_record *g = graph_of(f);
    as_safe_text(as_view_string(f->view, t->name), SIZE_MAX, AS_NAME_COLUMNS, false, name, sizeof name);
    as_say(out, ": %s of type %s %s %s", as_plural_text(t->count, "chunk").text, name, t->count == 1 ? "holds" : "hold",
           AS_SIZE(t->bytes));
    uint64_t mapped = as_known(g->mapping_bytes); // these are no chunks
    say_allocated(out, mapped <= g->bytes ? g->bytes - mapped : AS_UNKNOWN, NULL);
    out->tells |= AS_TELLS_TYPE;
}

static void say_size(const struct as_facts *f, struct as_finding *out, const struct as_largest_size *most)
{
    as_say(out, ": %s of %s bytes %s %s", as_plural_text(most->count, "chunk").text,
           as_count_text(most->chunk_size).text, most->count == 1 ? "holds" : "hold", AS_SIZE(most->bytes));
    say_allocated(out, f->allocated, NULL);
    out->tells |= AS_TELLS_SIZE;
}

// What nobody holds, of a process whose graph is known.
static uint64_t lost_bytes(const struct as_graph_record *g)
{
    return g ? as_known(as_add(g->direct.bytes, g->indirect.bytes)) : 0;
}

// A suspicion, and what is lost for certain. `most`: the size that is named; NULL: none is.
static void say_leak(const struct as_facts *f, struct as_finding *out, const struct as_largest_size *most)
{
    const struct as_graph_record *g = graph_of(f);
    double allocated = (double)as_known(f->allocated), lost = (double)lost_bytes(g);
    if (most && most->count >= MANY && (double)most->bytes >= MOST * allocated && lost < MOST * allocated) {
        as_say(out, ", %sperhaps a leak, perhaps a cache", f->has_ruby ? "perhaps garbage, " : "");
        out->tells |= AS_TELLS_LEAK;
    }
    if (lost == 0 || lost < AS_FEW * allocated)
        return;
    as_say(out, "; %s is lost", AS_SIZE(lost_bytes(g)));
    if (!most)
        say_allocated(out, g->bytes, g);
}

// The application holds much of it: in chunks of which type or size, whether that resembles a leak, and what of it is lost.
bool as_in_use(const struct as_facts *f, struct as_finding *out)
{
    double notable = AS_NOTABLE * (double)as_known(f->allocated);
    struct as_largest_size sizes[AS_LARGEST_SIZES], *most = as_largest_sizes(f->view, sizes) > 0 ? sizes : NULL;
    if (most && (double)most->bytes < notable)
        most = NULL;
    const struct as_graph_type_record *type = largest_type(f, most ? (double)most->bytes : notable);
    as_say(out, "%s of it (%s) is in use by the application", AS_SIZE(out->bytes),
           as_share_text(out->bytes, f->whole).text);
    if (type)
        say_type(f, out, type);
    else if (most)
        say_size(f, out, most);
    say_leak(f, out, most);
    as_say(out, ".");
    return as_is_large(f, out->bytes, out->rows, AS_NOTABLE);
}

// Large blocks in mappings of their own: in use, whatever one suspects of malloc.
bool as_large_blocks(const struct as_facts *f, struct as_finding *out)
{
    const struct as_tally *all = &f->chunks->mmapped;
    uint64_t largest = as_largest_mmapped(f->view);
    out->bytes = f->rows->mmapped_in_use;
    as_say(out, "%s of what is in use is in ", AS_SIZE(out->bytes));
    if (all->count == 1) {
        as_say(out, "one large block of %s, mapped on its own.", AS_SIZE(largest));
    } else {
        as_say(out, "%s, each mapped on its own, the largest with %s", as_plural_text(all->count, "large block").text,
               AS_SIZE(largest));
        say_allocated(out, all->bytes, NULL);
        as_say(out, ".");
    }
    return as_is_large(f, out->bytes, 0, AS_LARGE) && out->bytes >= AS_MIB;
}

// Free memory that is not in RAM any more, which mallinfo still counts as held.
bool as_gone_already(const struct as_facts *f, struct as_finding *out)
{
    const struct as_ledger *r = f->rows;
    uint64_t free = as_add(f->chunks->binned.bytes, as_add(f->chunks->top.bytes, f->chunks->fastbin.bytes));
    out->bytes = as_add(r->returned, r->swapped_free);
    out->lights = as_any(r->returned) ? "row:returned" : "row:swapped_free";
    as_say(out, "%s of malloc's free memory has been returned to the kernel already", AS_SIZE(r->returned));
    if (as_any(r->swapped_free))
        as_say(out, ", and %s of it or of caches is swapped out", AS_SIZE(r->swapped_free));
    as_say(out, ".");
    return free != AS_UNKNOWN && as_matters(f, out->bytes, 0);
}

// Part of what the application holds is swapped out.
bool as_swapped(const struct as_facts *f, struct as_finding *out)
{
    out->bytes = f->rows->swapped_in_use;
    as_say(out, "%s that the application holds in malloc's heaps is swapped out.", AS_SIZE(out->bytes));
    return as_matters(f, out->bytes, 0);
}

// Files in memory that are open and not mapped: a cgroup counts them, Rss does not.
bool as_open_files(const struct as_facts *f, struct as_finding *out)
{
    const struct as_meta_record *m = f->view->meta;
    out->bytes = 0;
    for (uint64_t i = 0; i < f->view->open_file_count; i++)
        out->bytes = as_add(out->bytes, f->view->open_files[i].bytes);
    if (as_any(m->descriptors_left))
        snprintf(out->estimate, sizeof out->estimate, "%.40s were not searched",
                 as_plural_text(m->descriptors_left, "more descriptor").text);
    as_say(out, "%s is in %s in memory that the process has open and does not map.", AS_SIZE(out->bytes),
           as_plural_text(f->view->open_file_count, "file").text);
    return m->descriptors != AS_UNKNOWN && as_matters(f, out->bytes, 0);
}
