// SPDX-License-Identifier: MIT
// A trim from beginning to end: arena after arena, each forecast, given back, and asked after at the kernel's.
#include "trim/trim.h"
#include "malloc/find.h"
#include "target/procfs.h"
#include "trim/pages.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SLICES = 4, // of the time that a lock may be held for: the rest is for what cannot be foreseen
    SLICE_LEAST_NS = 20000,
    ROOM = 1 << 17, // for members of fastbins that a slice may find
};

// libc's own; weak, for there may be another libc, and other mallocs come without it.
extern int malloc_trim(size_t pad) __attribute__((weak));

static void note(struct as_trim_outcome *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct as_trim_outcome *out, const char *format, ...)
{
    size_t used = strlen(out->note);
    if (used > 0 && used + 3 < sizeof out->note)
        used += (size_t)snprintf(out->note + used, sizeof out->note - used, "; ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->note + used, sizeof out->note - used, format, arguments);
    va_end(arguments);
}

static void pass_free(struct as_trim_pass *p)
{
    AS_FREE_VECS(p, memory, regions, pages, fast);
}

// Does one thing to the whole arena, in as many slices as it takes.
static bool in_slices(struct as_trim_pass *p, enum as_trim_progress (*act)(struct as_trim_pass *), struct as_error *err)
{
    p->cursor = (struct as_trim_cursor){0};
    for (;;) {
        if (!as_vec_reserve(&p->fast, p->forecast ? ROOM : 0, err) || !as_trim_slice_begin(p, err))
            return false;
        enum as_trim_progress progress = act(p);
        as_trim_slice_end(p);
        if (progress == AS_TRIM_CORRUPT)
            return as_fail(err, AS_BAD_INPUT, "%s", p->fault);
        if (progress == AS_TRIM_DONE)
            return true;
    }
}

// The top before the lists: what a forecast takes for part of the top once all is merged is not to be counted as chunks.
static bool go_through(struct as_trim_pass *p, struct as_error *err)
{
    bool fast = p->forecast ? in_slices(p, as_trim_fastbins_list, err) && as_trim_fastbins_sort(p, err) &&
                                  in_slices(p, as_trim_fastbins_forecast, err)
                            : in_slices(p, as_trim_fastbins_trim, err);
    return fast && in_slices(p, as_trim_top, err) && in_slices(p, as_trim_bins, err);
}

// Finds the arena's memory, and which of its pages are in memory.
static bool prepare(struct as_trim_pass *p, struct as_trim_arena *arena, struct as_error *err)
{
    if (!as_trim_slice_begin(p, err))
        return false;
    as_trim_slice_end(p);
    if (!as_trim_pages_read(p, err))
        return false;
    // Memory that need not be the arena's alone has other pages too.
    bool shared = p->main && (p->flags & AS_NONCONTIGUOUS);
    arena->resident = shared ? AS_UNKNOWN : as_trim_pages_count(p, AS_TRIM_RESIDENT);
    return true;
}

// What a pass, or a forecast, has found free. It was to go through the whole arena: of a part nothing is said.
static void count_free(const struct as_trim_pass *p, bool whole, struct as_trim_arena *arena)
{
    arena->releasable = arena->withheld = AS_UNKNOWN;
    if (!whole)
        return;
    arena->releasable = as_trim_pages_count(p, AS_TRIM_RESIDENT | AS_TRIM_RELEASABLE);
    arena->withheld = as_trim_pages_count(p, AS_TRIM_RESIDENT | AS_TRIM_WITHHELD);
    arena->releasable_most = as_trim_pages_at_most(p, AS_TRIM_RESIDENT | AS_TRIM_RELEASABLE);
    arena->withheld_most = as_trim_pages_at_most(p, AS_TRIM_RESIDENT | AS_TRIM_WITHHELD);
}

static bool forecast(struct as_trim_pass *p, struct as_trim_arena *arena, struct as_error *err)
{
    p->forecast = true;
    bool ok = prepare(p, arena, err) && go_through(p, err);
    p->forecast = false;
    as_vec_free(&p->fast);
    count_free(p, ok, arena);
    as_trim_pages_reset(p);
    return ok;
}

// Trims an arena; `prepared`: a forecast has been made. `done`: malloc_trim has done what a plain trim does.
static bool trim(struct as_trim_pass *p, struct as_trim_arena *arena, bool prepared, bool done, struct as_error *err)
{
    if (done && !p->request->deep)
        return true;
    bool ok = (prepared || prepare(p, arena, err)) && go_through(p, err);
    if (!prepared)
        count_free(p, ok, arena);
    return ok;
}

// All passes of a trim, or of a forecast: one for each arena.
struct passes {
    AS_VEC(struct as_trim_pass) items;
    struct as_heaps heaps; // arenas and pars only
    uint64_t began, cpu;   // in nanoseconds
};

static bool is_asked_for(const struct as_trim_request *r, uint64_t arena)
{
    return r->only == 0 || r->only == arena;
}

// Only the counts of mappings tell which of them are made of hugetlb pages.
static bool count_huge_pages(struct as_target *self, const struct as_heaps *h, struct as_error *err)
{
    bool huge = false;
    for (size_t i = 0; i < h->pars.count; i++)
        huge |= h->pars.items[i].hp_pagesize != 0 && h->pars.items[i].hp_pagesize != AS_UNKNOWN;
    return !huge || self->counts.rss != AS_UNKNOWN || self->ops->residency.count(self, err);
}

// Lists the arenas. They never go away, and their addresses stay.
static bool list_arenas(struct passes *all, struct as_target *self, const struct as_malloc *m,
                        const struct as_trim_request *request, struct as_trim_outcome *out, struct as_error *err)
{
    if (self->kind != AS_TARGET_SELF)
        return as_fail(err, AS_INTERNAL, "a trim of another process than this one");
    if (m->libcs.count == 0)
        return as_fail(err, AS_NO_MALLOC, "there is no glibc malloc in this process: %s", m->detail);
    all->heaps.target = self;
    all->heaps.malloc = m;
    for (uint32_t i = 0; i < m->libcs.count; i++) {
        if (!as_arenas_read(&all->heaps, i, err))
            return false;
        if (!m->libcs.items[i].proven)
            return as_fail(err, AS_UNSUPPORTED,
                           "the layout of malloc is not proven in this process: nothing is touched");
    }
    if (all->heaps.incomplete)
        note(out, "not all arenas could be read");
    if (!count_huge_pages(self, &all->heaps, err))
        return false;
    struct as_arena_place place = {0};
    for (size_t i = 0; i < all->heaps.arenas.count; i++)
        place.mains += all->heaps.arenas.items[i].main;
    for (size_t i = 0; i < all->heaps.arenas.count; i++) {
        const struct as_arena *a = &all->heaps.arenas.items[i];
        as_arena_place_step(&place, (uint32_t)i, a->main);
        if (!is_asked_for(request, a->address))
            continue;
        struct as_trim_pass *p = as_vec_add(&all->items, err);
        struct as_trim_arena *arena = as_vec_add(&out->arenas, err);
        if (!p || !arena)
            return false;
        uint64_t slice = request->max_hold_ns / SLICES;
        *p = (struct as_trim_pass){
            .self = self,
            .libc = a->libc,
            .par = &all->heaps.pars.items[a->libc_index],
            .request = request,
            .arena = a->address,
            .main = a->main,
            .page_size = self->page_size,
            .slice = request->max_hold_ns == 0 ? UINT64_MAX
                     : slice > SLICE_LEAST_NS  ? slice
                                               : SLICE_LEAST_NS,
        };
        *arena = (struct as_trim_arena){.place = place, .address = a->address, .resident = AS_UNKNOWN};
    }
    return out->arenas.count > 0 ||
           as_fail(err, AS_USAGE, "there is no arena at %#llx", (unsigned long long)request->only);
}

// To be ended in any case.
static bool passes_begin(struct passes *all, struct as_target *self, const struct as_malloc *m,
                         const struct as_trim_request *request, struct as_trim_outcome *out, struct as_error *err)
{
    *out = (struct as_trim_outcome){0};
    *all = (struct passes){.began = as_now_ns(), .cpu = as_clock_ns(CLOCK_THREAD_CPUTIME_ID)};
    return list_arenas(all, self, m, request, out, err);
}

static void passes_end(struct passes *all, const struct as_target *self, struct as_trim_outcome *out)
{
    if (self->residency.note && out->arenas.count > 0)
        note(out, "%s", self->residency.note);
    out->elapsed_ns = as_now_ns() - all->began;
    out->cpu_ns = as_clock_ns(CLOCK_THREAD_CPUTIME_ID) - all->cpu;
    for (size_t i = 0; i < all->items.count; i++)
        pass_free(&all->items.items[i]);
    as_vec_free(&all->items);
    as_heaps_free(&all->heaps);
}

// How a note calls an arena: "arena 3 at 0x7f8dc0000030".
enum { CALLED = AS_ARENA_NAME + 24 };
static const char *called(const struct as_trim_arena *arena, char out[CALLED])
{
    char name[AS_ARENA_NAME];
    snprintf(out, CALLED, "%s at %#llx", as_arena_place_name(&arena->place, name), (unsigned long long)arena->address);
    return out;
}

// An arena is left alone from here on; the others are not.
static void skip(struct as_trim_outcome *out, size_t i, const struct as_error *why)
{
    char which[CALLED];
    out->arenas.items[i].skipped = true;
    note(out, "%s was skipped: %s", called(&out->arenas.items[i], which), why->text);
}

static void forecast_all(struct passes *all, struct as_trim_outcome *out)
{
    for (size_t i = 0; i < all->items.count; i++) {
        struct as_error why;
        if (!forecast(&all->items.items[i], &out->arenas.items[i], &why))
            skip(out, i, &why);
    }
}

bool as_trim_forecast(struct as_target *self, const struct as_malloc *m, const struct as_trim_request *request,
                      struct as_trim_outcome *out, struct as_error *err)
{
    struct passes all;
    bool ok = passes_begin(&all, self, m, request, out, err);
    if (ok)
        forecast_all(&all, out);
    for (size_t i = 0; ok && i < all.items.count; i++)
        out->arenas.items[i].longest_hold_ns = all.items.items[i].longest;
    passes_end(&all, self, out);
    return ok;
}

// Does malloc_trim belong to this libc?
static bool has_malloc_trim(const struct as_libc *libc)
{
    uint64_t address = (uint64_t)(uintptr_t)&malloc_trim;
    return address != 0 && address >= libc->code_start && address < libc->code_end;
}

// Has libc give back what it gives back itself, where that is wanted: all its arenas' in one go, as long as it takes. Returns
// whether it has. Not where an arena makes no sense: malloc_trim ends the process then.
static bool by_malloc_trim(const struct as_trim_outcome *out)
{
    for (size_t i = 0; i < out->arenas.count; i++)
        if (out->arenas.items[i].skipped)
            return false;
    malloc_trim(0);
    return true;
}

static void finish_arena(struct as_trim_pass *p, struct as_trim_arena *arena, uint8_t set, struct as_trim_outcome *out)
{
    struct as_error why;
    char which[CALLED];
    if (!as_trim_pages_returned(p, set, &arena->returned, &arena->returned_swap, &why)) {
        arena->returned = arena->returned_swap = AS_UNKNOWN;
        note(out, "it is unknown how much of %s came back: %s", called(arena, which), why.text);
    }
    arena->released = p->released;
    arena->longest_hold_ns = p->longest;
    uint64_t refused = as_trim_pages_at_most(p, AS_TRIM_REFUSED);
    if (refused > 0)
        note(out, "the kernel keeps %llu bytes of %s%s (errno %d)", (unsigned long long)refused, called(arena, which),
             p->refusal == EINVAL ? ": locked in memory (mlock)" : "", p->refusal);
}

static void trim_all(struct passes *all, const struct as_libc *libc, const struct as_trim_request *request,
                     struct as_trim_outcome *out)
{
    bool unbounded = request->max_hold_ns == 0 && request->only == 0 && has_malloc_trim(libc);
    if (unbounded)
        forecast_all(all, out);
    bool done = unbounded && by_malloc_trim(out);
    for (size_t i = 0; i < all->items.count; i++) {
        struct as_trim_pass *p = &all->items.items[i];
        struct as_trim_arena *arena = &out->arenas.items[i];
        bool done_here = done && p->libc == libc;
        struct as_error why;
        if (!arena->skipped && !trim(p, arena, unbounded, done_here, &why))
            skip(out, i, &why);
        finish_arena(p, arena, done_here ? 0 : AS_TRIM_RELEASED, out);
        if (done_here) // how long malloc_trim holds a lock, and how much it hands over, cannot be seen
            arena->longest_hold_ns = arena->released = AS_UNKNOWN;
    }
}

bool as_trim_run(struct as_target *self, const struct as_malloc *m, const struct as_trim_request *request,
                 struct as_trim_outcome *out, struct as_error *err)
{
    struct passes all;
    bool ok = passes_begin(&all, self, m, request, out, err);
    if (ok)
        trim_all(&all, &m->libcs.items[0], request, out);
    passes_end(&all, self, out);
    return ok;
}

void as_trim_free(struct as_trim_outcome *out)
{
    as_vec_free(&out->arenas);
}
