// SPDX-License-Identifier: MIT
// A view as JSON, schema "arenascope.summary/1": visualize/arenascope/wire/summary/ describes every key.
#include "cli/summary/summary.h"

#include "cli/enum_names.h"
#include "cli/json.h"
#include "findings/findings.h"
#include "findings/runtime_names.h"
#include "ledger/ledger.h"
#include "libc/libc.h"

#include <string.h>

// An empty string of the dump means that there was nothing to tell.
static void put_target(struct as_json *j, const struct as_view *v, bool from_dump)
{
    const struct as_meta_record *m = v->meta;
    as_json_object(j, "target");
    as_json_string(j, "kind", from_dump ? "dump" : as_target_kind_name(m->target_kind));
    as_json_string(j, "dump_of", from_dump ? as_target_kind_name(m->target_kind) : NULL);
    as_json_number(j, "pid", m->pid ? m->pid : AS_UNKNOWN);
    as_json_text(j, "comm", m->comm, sizeof m->comm);
    as_json_string(j, "exe", as_string_or_null(v, m->exe));
    as_json_string(j, "cmdline", as_string_or_null(v, m->cmdline));
    as_json_string(j, "arch", as_arch_name(m->arch));
    as_json_number(j, "page_size", m->page_size);
    as_json_number(j, "threads", m->thread_count);
    as_json_object_end(j);
}

// What it means that malloc() is not glibc's, and the rows that mean something else then.
static void put_not_glibc(struct as_json *j, const struct as_view *v)
{
    const struct as_not_glibc *words = as_not_glibc_words(v);
    if (!words) {
        as_json_null(j, "not_glibc");
        return;
    }
    as_json_object(j, "not_glibc");
    as_json_string(j, "says", words->says);
    as_json_string(j, "memory", words->memory);
    as_json_object(j, "meanings");
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_row_meaning(row, v) != as_row_words[row].meaning)
            as_json_string(j, as_row_words[row].name, as_row_meaning(row, v));
    as_json_object_end(j);
    as_json_object_end(j);
}

static void put_allocator(struct as_json *j, const struct as_view *v)
{
    static const struct as_malloc_record none = {
        .main_arena = AS_UNKNOWN, .mp = AS_UNKNOWN, .heap_max_size = AS_UNKNOWN};
    const struct as_malloc_record *m = v->malloc_count ? &v->mallocs[0] : &none;
    as_json_object(j, "allocator");
    as_json_string(j, "malloc", as_malloc_kind_name(v->meta->malloc_kind));
    as_json_string(j, "detail", as_string_or_null(v, v->meta->malloc_detail));
    as_json_string(j, "glibc", as_string_or_null(v, m->version));
    as_json_string(j, "layout_source", as_source_name(m->layout_source));
    as_json_string(j, "layout_versions", as_string_or_null(v, m->layout_versions));
    AS_JSON_ADDRESSES(j, m, main_arena, mp);
    as_json_number(j, "heap_max_size", m->heap_max_size);
    put_not_glibc(j, v);
    as_json_object_end(j);
}

// Without a malloc of glibc's every one is unknown.
static void put_tunables(struct as_json *j, const struct as_malloc_record *m)
{
    struct as_malloc_record none;
    memset(&none, 0xff, sizeof none);
    AS_JSON_OBJECT(j, "tunables", m ? m : &none, trim_threshold, top_pad, mmap_threshold, arena_max, arena_test,
                   no_dyn_threshold, tcache_count, tcache_max_bytes, thp_pagesize, hp_pagesize);
}

static void put_lost(struct as_json *j, const struct as_malloc_record *m)
{
    if (!m->lost_known) {
        as_json_null(j, "lost_tcaches");
        return;
    }
    as_json_object(j, "lost_tcaches");
    as_json_number(j, "tcaches", m->lost_tcaches);
    as_json_number(j, "count", m->lost_chunks);
    as_json_number(j, "bytes", m->lost_bytes);
    as_json_object_end(j);
}

static void put_mallocs(struct as_json *j, const struct as_view *v)
{
    as_json_array(j, "mallocs");
    AS_FOR_ITEMS(const struct as_malloc_record, m, v->mallocs, v->malloc_count) {
        as_json_object(j, NULL);
        as_json_string(j, "path", as_string_or_null(v, m->path));
        as_json_string(j, "build_id", as_string_or_null(v, m->build_id));
        as_json_string(j, "glibc", as_string_or_null(v, m->version));
        as_json_string(j, "layout_source", as_source_name(m->layout_source));
        as_json_string(j, "layout_versions", as_string_or_null(v, m->layout_versions));
        as_json_bool(j, "proven", m->proven);
        AS_JSON_ADDRESSES(j, m, main_arena, mp);
        AS_JSON_NUMBERS(j, m, heap_max_size, n_mmaps, mmapped_mem);
        put_lost(j, m);
        put_tunables(j, m);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_snapshot_object(struct as_json *j, const struct as_meta_record *m)
{
    as_json_object(j, "snapshot");
    as_json_string(j, "mode", as_mode_name(m->mode));
    as_json_milliseconds(j, "pause_ms", m->pause_ns);
    as_json_milliseconds(j, "read_ms", m->read_ns);
    as_json_number(j, "torn_chunks", m->torn_chunks);
    as_json_time(j, "time", m->time_ns);
    as_json_bool(j, "exact", m->flags & AS_META_EXACT);
    as_json_bool(j, "residency_known", m->flags & AS_META_RESIDENCY_KNOWN);
    as_json_object_end(j);
}

static void put_kernel(struct as_json *j, const struct as_view *v)
{
    uint64_t hugetlb = 0;
    for (uint64_t i = 0; i < v->mapping_count; i++)
        hugetlb = as_add(hugetlb, v->mappings[i].hugetlb);
    as_json_object(j, "kernel");
    AS_JSON_NUMBERS(j, v->meta, rss, swap);
    as_json_number(j, "hugetlb", hugetlb);
    as_json_object_end(j);
}

static void put_rows(struct as_json *j, const struct as_ledger *rows, enum as_row_kind kind)
{
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].kind == kind)
            as_json_number(j, as_row_words[row].name, as_row_value(rows, row));
}

static void put_ledger(struct as_json *j, const struct as_ledger *rows)
{
    static const struct {
        const char *key;
        enum as_row_kind kind;
    } parts[] = {{"ledger", AS_ROW_RESIDENT}, {"absent", AS_ROW_ABSENT}, {"forecast", AS_ROW_FORECAST}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        as_json_object(j, parts[i].key);
        put_rows(j, rows, parts[i].kind);
        as_json_object_end(j);
    }
    put_rows(j, rows, AS_ROW_BESIDE);
    const struct as_ledger_sums sums = as_ledger_sum_up(rows);
    AS_JSON_OBJECT(j, "sums", &sums, resident, known, used, cached, scattered, free_pages, free, not_malloc,
                   deep_trim_adds);
}

static void put_chunks(struct as_json *j, const struct as_tallies *t)
{
    as_json_object(j, "chunks");
    AS_JSON_OBJECT(j, "in_use", &t->in_use, count, bytes);
    AS_JSON_OBJECT(j, "tcache", &t->tcache, count, bytes);
    AS_JSON_OBJECT(j, "fastbin", &t->fastbin, count, bytes);
    AS_JSON_OBJECT(j, "binned", &t->binned, count, bytes);
    AS_JSON_OBJECT(j, "top", &t->top, count, bytes);
    AS_JSON_OBJECT(j, "mmapped", &t->mmapped, count, bytes);
    as_json_object_end(j);
}

// What of the chunks in use and of the forecast a reader asks for first.
static void put_evidence(struct as_json *j, const struct as_view *v)
{
    struct as_largest_size sizes[AS_LARGEST_SIZES];
    uint32_t count = as_largest_sizes(v, sizes);
    as_json_array(j, "largest_sizes");
    for (uint32_t i = 0; i < count; i++)
        AS_JSON_OBJECT(j, NULL, &sizes[i], chunk_size, count, bytes);
    as_json_array_end(j);
    as_json_number(j, "largest_mmapped", as_largest_mmapped(v));
    const struct as_releasable pages = as_releasable_pages(v);
    AS_JSON_OBJECT(j, "releasable", &pages, end, below, arenas);
}

static void put_threads(struct as_json *j, const struct as_view *v, const struct as_arena_threads *threads,
                        uint32_t arena)
{
    as_json_array(j, "threads");
    for (uint64_t i = threads->first[arena]; i < threads->first[arena + 1]; i++) {
        const struct as_thread_record *t = &v->threads[threads->order[i]];
        as_json_object(j, NULL);
        as_json_number(j, "tid", t->tid);
        as_json_text(j, "name", t->name, sizeof t->name);
        AS_JSON_NUMBERS(j, t, tcache_count, tcache_bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_arenas(struct as_json *j, const struct as_view *v, const struct as_arena_threads *threads)
{
    struct as_arena_place place = as_arena_place_begin(v);
    static const char *const idle[] = {NULL, "no_thread", "nearly_empty"};
    char name[AS_ARENA_NAME];
    as_json_array(j, "arenas");
    for (uint32_t i = 0; i < v->arena_count; i++) {
        const struct as_arena_record *a = &v->arenas[i];
        as_arena_place_step(&place, i, a->flags & AS_ARENA_MAIN);
        as_json_object(j, NULL);
        as_json_string(j, "name", as_arena_place_name(&place, name));
        as_json_address(j, "address", a->address);
        as_json_bool(j, "main", a->flags & AS_ARENA_MAIN);
        as_json_number(j, "malloc", a->malloc_index);
        as_json_number(j, "heaps", a->heap_count);
        AS_JSON_NUMBERS(j, a, system_mem, max_system_mem, attached_threads);
        as_json_address(j, "top", a->top);
        as_json_bool(j, "noncontiguous", a->flags & AS_ARENA_NONCONTIGUOUS);
        as_json_bool(j, "corrupt", a->flags & AS_ARENA_CORRUPT);
        as_json_bool(j, "locked", a->flags & AS_ARENA_LOCKED);
        as_json_number(j, "torn_chunks", a->torn_chunks);
        as_json_string(j, "idle", idle[as_arena_idle(a)]);
        put_threads(j, v, threads, i);
        put_ledger(j, &a->ledger);
        put_chunks(j, &a->chunks);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_pins(struct as_json *j, const struct as_view *v, const struct as_pins *pins)
{
    as_json_array(j, "pins");
    for (uint64_t i = 0; i < pins->count; i++) {
        const struct as_size_record *s = &v->sizes[pins->order[i]];
        as_json_object(j, NULL);
        as_json_number(j, "chunk_size", s->chunk_size);
        as_json_number(j, "count", s->pin_count);
        as_json_number(j, "pages", s->pin_pages);
        as_json_number(j, "stranded", s->pin_stranded);
        as_json_number(j, "tails", s->tail_count);
        AS_JSON_NUMBERS(j, s, tail_bytes, in_use);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

// The classes of pages with stranded bytes, summed up along one side of their table.
static void put_fill(struct as_json *j, const struct as_view *v, const char *name, bool by_chunks)
{
    static const uint32_t chunks[AS_FILL_CHUNKS] = {0, 1, 2, 3, 5, 9};
    as_json_array(j, name);
    for (uint32_t k = 0; k < (by_chunks ? AS_FILL_CHUNKS : AS_FILL_EIGHTHS); k++) {
        struct as_fill_record sum = {0};
        AS_FOR_ITEMS(const struct as_fill_record, f, v->page_fill, v->fill_count) {
            if ((by_chunks ? f->chunks : f->eighths) != (by_chunks ? chunks[k] : k))
                continue;
            sum.pages = as_add(sum.pages, f->pages);
            sum.in_use = as_add(sum.in_use, f->in_use);
            sum.stranded = as_add(sum.stranded, f->stranded);
        }
        as_json_object(j, NULL);
        as_json_number(j, by_chunks ? "chunks_from" : "eighths_from", by_chunks ? chunks[k] : k);
        AS_JSON_NUMBERS(j, &sum, pages, in_use, stranded);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

// How full the pages with stranded bytes are, and which sizes stand there together; null: residency is not known.
static void put_stranded(struct as_json *j, const struct as_view *v, const struct as_largest *sharers)
{
    if (v->fill_count == 0 && v->totals->ledger.stranded != 0) {
        as_json_null(j, "stranded_pages");
        return;
    }
    as_json_object(j, "stranded_pages");
    put_fill(j, v, "by_chunks", true);
    put_fill(j, v, "by_share", false);
    as_json_array(j, "shared");
    for (uint64_t i = 0; i < sharers->count; i++)
        AS_JSON_OBJECT(j, NULL, &v->sharers[sharers->index[i]], chunk_size, places, stranded);
    as_json_array_end(j);
    as_json_object_end(j);
}

static void put_warnings(struct as_json *j, const struct as_view *v)
{
    as_json_array(j, "warnings");
    AS_FOR_ITEMS(const struct as_warning_record, w, v->warnings, v->warning_count) {
        as_json_object(j, NULL);
        as_json_string(j, "code", as_warning_name(w->code));
        as_json_string(j, "text", as_view_string(v, w->text));
        as_json_address(j, "arena", w->arena != UINT32_MAX ? v->arenas[w->arena].address : AS_UNKNOWN);
        as_json_address(j, "heap", w->heap != UINT32_MAX ? v->heaps[w->heap].start : AS_UNKNOWN);
        as_json_address(j, "address", w->address);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

bool as_summary_json(FILE *out, const struct as_view *v, bool from_dump, struct as_error *err)
{
    struct as_arena_threads threads = {0};
    struct as_pins pins = {0};
    struct as_largest sharers;
    as_sharers_sort(&sharers, v);
    bool ok = as_arena_threads_sort(&threads, v, err) && as_pins_sort(&pins, v, err);
    if (ok) {
        struct as_json json = {.out = out};
        struct as_json *j = &json;
        as_json_object(j, NULL);
        as_json_string(j, "schema", "arenascope.summary/1");
        put_target(j, v, from_dump);
        put_allocator(j, v);
        put_snapshot_object(j, v->meta);
        put_kernel(j, v);
        put_ledger(j, &v->totals->ledger);
        put_chunks(j, &v->totals->chunks);
        put_evidence(j, v);
        put_arenas(j, v, &threads);
        put_tunables(j, v->malloc_count ? &v->mallocs[0] : NULL);
        put_mallocs(j, v);
        put_pins(j, v, &pins);
        put_stranded(j, v, &sharers);
        as_summary_graph(j, v);
        as_summary_runtimes(j, v);
        ok = as_summary_mappings(j, v, err);
        as_summary_open_files(j, v);
        as_summary_stacks(j, v);
        put_warnings(j, v);
        ok = ok && as_summary_findings(j, v, err);
        as_json_object_end(j);
    }
    as_arena_threads_free(&threads);
    as_pins_free(&pins);
    return ok;
}

bool as_summary_text(const struct as_view *v, char **text, size_t *size, struct as_error *err)
{
    FILE *out = open_memstream(text, size);
    bool ok = (out || as_fail(err, AS_NO_MEMORY, "no memory for the summary")) && as_summary_json(out, v, false, err);
    if (out && fclose(out) != 0)
        ok = as_fail(err, AS_NO_MEMORY, "no memory for the summary");
    return ok;
}
