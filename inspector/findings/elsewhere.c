// SPDX-License-Identifier: MIT
// What is not malloc's: runtimes, other allocators, files, stacks; and the premises, which change how everything else is to be read.
#include "findings/facts.h"
#include "findings/runtime_names.h"
#include "libc/libc.h"

#include <string.h>

// "40.0 MiB of it (62.1 %) is": what explains a row, and is no waste.
static void say_part(const struct as_facts *f, struct as_finding *out)
{
    as_say(out, "%s of it (%s) is ", AS_SIZE(out->bytes), as_share_text(out->bytes, f->whole).text);
}

// Somebody else answers malloc(): glibc's arenas are not where the program's blocks are.
bool as_another_allocator(const struct as_facts *f, struct as_finding *out)
{
    enum as_malloc_kind kind = f->view->meta->malloc_kind;
    const char *name = as_malloc_kind_name(kind), *title = as_runtime_title(name);
    bool located = as_any(f->rows->other_malloc);
    if (f->is_glibc)
        return false;
    out->bytes = located ? f->rows->other_malloc : f->rows->other_anon;
    out->rows = located ? AS_ROW_BIT(other_malloc) : AS_ROW_BIT(other_anon);
    if (kind == AS_MALLOC_UNKNOWN) {
        as_say(out, "%s.", as_not_glibc_words(f->view)->says);
        return true;
    }
    as_say(out, "%s answers malloc() in this process, not glibc: its memory is ", title ? title : name);
    as_say(out, located ? "%s, blocks in use and free ones." : "part of %s of anonymous memory.", AS_SIZE(out->bytes));
    return true;
}

// A core of gcore, or one without its holes: the chunks are known, the pages are not.
bool as_residency_unknown(const struct as_facts *f, struct as_finding *out)
{
    const struct as_tallies *t = f->chunks;
    uint64_t free = as_add(as_add(t->binned.bytes, t->top.bytes), as_add(t->fastbin.bytes, t->tcache.bytes));
    out->bytes = AS_UNKNOWN;
    as_say(out, "%s is in chunks in use, %s in free chunks, resident or not.", AS_SIZE(f->allocated), AS_SIZE(free));
    return !(f->view->meta->flags & AS_META_RESIDENCY_KNOWN);
}

// Ruby's own heap, and how much of it holds no object.
bool as_ruby_pages(const struct as_facts *f, struct as_finding *out)
{
    uint64_t slots = 0, free = 0;
    for (uint64_t i = 0; i < f->view->ruby_page_count; i++) {
        slots += f->view->ruby[i].total_slots;
        free += f->view->ruby[i].free_slots;
    }
    as_say(out, "%s is in pages of Ruby's own heap; %s of their slots are free.", AS_SIZE(out->bytes),
           as_share_text(free, slots).text);
    return f->view->meta->ruby == AS_RUBY_FOUND && as_matters(f, out->bytes, out->rows);
}

static bool is_part(const struct as_runtime_record *r, uint64_t rows)
{
    return r->kind != AS_RUNTIME_RUBY && r->state == AS_REGIONS_FOUND && r->row < AS_ROW_COUNT && rows >> r->row & 1;
}

// CPython's own heap.
bool as_python_arenas(const struct as_facts *f, struct as_finding *out)
{
    bool found = false;
    for (uint64_t i = 0; i < f->view->runtime_count; i++)
        found |= is_part(&f->view->runtimes[i], out->rows);
    say_part(f, out);
    as_say(out, "in the arenas of Python's own allocator.");
    return found && as_matters(f, out->bytes, out->rows);
}

// Whose memory is in these rows, each once, in the order of the alphabet: "Go and Java".
static void say_names(const struct as_facts *f, struct as_finding *out, const char *unknown)
{
    const char *last = NULL;
    for (;;) {
        const char *next = NULL;
        for (uint64_t i = 0; i < f->view->runtime_count; i++) {
            const char *title = as_runtime_title(as_runtime_name(f->view->runtimes[i].kind));
            title = title ? title : unknown;
            if (is_part(&f->view->runtimes[i], out->rows) && (!last || strcmp(title, last) > 0) &&
                (!next || strcmp(title, next) < 0))
                next = title;
        }
        if (!next && last)
            return;
        as_say(out, "%s%s", last ? " and " : "", next ? next : unknown);
        if (!next)
            return;
        last = next;
    }
}

// The part of Go's heap that is stacks, and how many goroutines have these.
static void say_goroutines(const struct as_facts *f, struct as_finding *out)
{
    AS_FOR_ITEMS(const struct as_runtime_record, r, f->view->runtimes, f->view->runtime_count) {
        if (!is_part(r, out->rows) || r->stacks == AS_UNKNOWN)
            continue;
        as_say(out, "; %s of it is in stacks of %s", AS_SIZE(r->stacks_resident),
               r->goroutines == AS_UNKNOWN ? "goroutines, whose number is not known"
                                           : as_plural_text(r->goroutines, "goroutine").text);
        return;
    }
}

// The heaps of runtimes that collect garbage.
bool as_managed(const struct as_facts *f, struct as_finding *out)
{
    say_part(f, out);
    as_say(out, "in the memory of ");
    say_names(f, out, "a runtime");
    as_say(out, ", garbage included");
    say_goroutines(f, out);
    as_say(out, ".");
    return as_matters(f, out->bytes, out->rows);
}

// Memory of an allocator beside glibc's. One that answers malloc() in its place is a premise.
bool as_other_malloc(const struct as_facts *f, struct as_finding *out)
{
    say_part(f, out);
    as_say(out, "in the memory of ");
    say_names(f, out, "another allocator");
    as_say(out, ", not of glibc's malloc.");
    return f->is_glibc && as_matters(f, out->bytes, out->rows);
}

// Pages of files; memory that other processes may have, too; anonymous memory of which nothing else is known.
bool as_part_of_rss(const struct as_facts *f, struct as_finding *out)
{
    static const char *const texts[AS_ROW_COUNT] = {[AS_ROW_other_file] = "of files",
                                                    [AS_ROW_other_shmem] = "in shared memory",
                                                    [AS_ROW_other_anon] = "anonymous memory that is not malloc's"};
    int row = __builtin_ctzll(out->rows);
    say_part(f, out);
    as_say(out, "%s.", texts[row]);
    // Another allocator's own finding tells of anonymous memory.
    return (f->is_glibc || row != AS_ROW_other_anon) && as_is_large(f, out->bytes, out->rows, AS_LARGE);
}

// What threads have touched of their stacks.
bool as_stacks(const struct as_facts *f, struct as_finding *out)
{
    say_part(f, out);
    as_say(out, "in the stacks of %s.", as_plural_text(f->view->meta->thread_count, "thread").text);
    return as_is_large(f, out->bytes, out->rows, AS_LARGE);
}

// The largest row, if no rule is about it.
bool as_any_other(const struct as_facts *f, struct as_finding *out)
{
    if (f->largest_row < 0)
        return false;
    static const char *const lights[] = {
#define AS_ROW(name, kind, owner, ...) [AS_ROW_##name] = AS_ROW_OF_##owner == AS_ROW_OF_MALLOC ? "row:" #name : NULL,
#include "model/rows.def"
    };
    const struct as_row_words *row = &as_row_words[f->largest_row];
    out->rule = row->title;
    out->lights = lights[f->largest_row]; // else it is not on the map
    out->rows = UINT64_C(1) << f->largest_row;
    out->bytes = as_row_value(f->rows, f->largest_row);
    say_part(f, out);
    as_say(out, "the row \"%s\": %s.", row->title, row->meaning);
    return true;
}
