// SPDX-License-Identifier: MIT
// The objects of runtimes in the summary for the terminal.
#include "cli/summary/summary.h"

#include "cli/terminal.h"
#include "findings/humanize.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_LINES = 12, NAME = 200 };

static uint64_t bytes_of(const struct as_type_record *t)
{
    return as_add(as_add(t->bytes, as_known(t->malloc_bytes)), as_known(as_add(t->owned_bytes, t->owned_malloc_bytes)));
}

static const char *whose(const struct as_runtime_record *r)
{
    return r->kind == AS_RUNTIME_RUBY ? "Ruby's" : "Python's";
}

static void put_more(struct as_writer *w, uint64_t left, const char *what)
{
    if (left > 0)
        as_put(w, "  and %" PRIu64 " more %s: summary --json has them all\n", left, what);
}

// The types of a runtime's objects that have the most bytes; they are in this order.
static void put_types(struct as_writer *w, const struct as_view *v, uint32_t runtime)
{
    const struct as_runtime_record *r = &v->runtimes[runtime];
    char name[NAME];
    uint64_t seen = 0;
    as_heading(w, "%s objects by type%s", whose(r),
               r->objects == AS_OBJECTS_ESTIMATED ? " (some changed during the snapshot)" : "");
    as_dim(w, "  %12s %11s %13s  %s", "objects", "bytes", "what they own", "type");
    as_put(w, "\n");
    if (v->meta->malloc_kind != AS_MALLOC_GLIBC)
        as_put(w, "  What they own in another malloc was not searched: bytes are those of the objects alone.\n");
    AS_FOR_ITEMS(const struct as_type_record, t, v->types, v->type_count) {
        if (t->runtime != runtime || seen++ >= MOST_LINES)
            continue;
        as_safe_text(as_view_string(v, t->name), SIZE_MAX, 60, w->style->ascii, name, sizeof name);
        as_put(w, "  %12" PRIu64 " %11s %13s  %s\n", t->count, as_size_text(bytes_of(t)).text,
               as_size_text(as_add(t->owned_bytes, t->owned_malloc_bytes)).text, name);
    }
    if (r->other_blocks > 0)
        as_put(w, "  %12" PRIu64 " %11s %13s  %s\n", r->other_blocks, as_size_text(r->other_bytes).text, "",
               "blocks that no object owns");
    put_more(w, seen > MOST_LINES ? seen - MOST_LINES : 0, "types");
}

// What to call a class: as the terminal of arenascope does.
static const char *class_title(const struct as_view *v, const struct as_class_record *c)
{
    switch (c->kind) {
    case AS_CLASS_ANONYMOUS:
        return "(class without a name)";
    case AS_CLASS_SINGLETON:
        return "(singleton classes)";
    case AS_CLASS_INTERNAL:
        return "(Ruby's own)";
    default:
        return as_view_string(v, c->name);
    }
}

static void put_class(struct as_writer *w, const struct as_view *v, const struct as_class_record *c)
{
    char name[NAME], type[NAME], made[24] = "unknown";
    if (c->not_marked != AS_UNKNOWN)
        snprintf(made, sizeof made, "%" PRIu64, c->not_marked);
    as_safe_text(class_title(v, c), SIZE_MAX, 40, w->style->ascii, name, sizeof name);
    as_safe_text(as_view_string(v, v->types[c->type].name), SIZE_MAX, 20, w->style->ascii, type, sizeof type);
    as_put(w, "  %12" PRIu64 " %13s %11s %13s  %s, %s\n", c->count, made,
           as_size_text(as_add(c->bytes, as_known(c->owned_malloc_bytes))).text,
           as_size_text(c->owned_malloc_bytes).text, name, type);
}

// The classes of a Ruby's objects that have the most bytes; they are in this order.
static void put_classes(struct as_writer *w, const struct as_view *v, uint32_t runtime)
{
    uint64_t seen = 0;
    for (uint64_t i = 0; i < v->class_count; i++) {
        if (v->classes[i].runtime != runtime)
            continue;
        if (seen == 0) {
            as_heading(w, "%s objects by class", whose(&v->runtimes[runtime]));
            as_dim(w, "  %12s %13s %11s %13s  %s", "objects", "since last GC", "bytes", "what they own", "class, type");
            as_put(w, "\n");
        }
        if (seen++ < MOST_LINES)
            put_class(w, v, &v->classes[i]);
    }
    put_more(w, seen > MOST_LINES ? seen - MOST_LINES : 0, "classes");
}

void as_summary_objects(struct as_writer *w, const struct as_view *v)
{
    for (uint32_t i = 0; i < v->runtime_count; i++) {
        if (v->runtimes[i].objects != AS_OBJECTS_COUNTED && v->runtimes[i].objects != AS_OBJECTS_ESTIMATED)
            continue;
        put_types(w, v, i);
        put_classes(w, v, i);
    }
}
