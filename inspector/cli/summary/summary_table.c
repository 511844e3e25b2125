// SPDX-License-Identifier: MIT
// The summary for the terminal: what a tired engineer has to know first comes first.
#include "cli/summary/summary.h"

#include "cli/enum_names.h"
#include "cli/terminal.h"
#include "findings/humanize.h"
#include "findings/runtime_names.h"
#include "ledger/ledger.h"
#include "libc/libc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 5, BAR_COLUMNS = 10, MAX_WARNINGS = 12, MAX_THREADS = 6 };

// The terminal's colours. Red: in use. Yellow: cached. Green and cyan: comes back with a trim. Grey: free, but stays.
static const int colours[] = {
    [AS_ROWS_HELD] = 31,     [AS_ROWS_CACHED] = 33,   [AS_ROWS_STRANDED] = 90, [AS_ROWS_RELEASABLE] = 32,
    [AS_ROWS_WITHHELD] = 36, [AS_ROWS_OVERHEAD] = 34, [AS_ROWS_OTHER] = 35,    [AS_ROWS_UNKNOWN] = 90,
};

struct sorted_row {
    int row;
    uint64_t bytes;
};

// Largest first; what is not known comes last, lest it resemble the largest.
static int by_bytes(const void *a, const void *b)
{
    uint64_t x = ((const struct sorted_row *)a)->bytes + 1, y = ((const struct sorted_row *)b)->bytes + 1;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void put_header(struct as_writer *w, const struct as_view *v)
{
    const struct as_meta_record *m = v->meta;
    char name[80], command[400], time[AS_TIME_SIZE];
    as_safe_text(m->comm, sizeof m->comm, 32, w->style->ascii, name, sizeof name);
    const char *line = as_view_string(v, m->cmdline);
    if (!*line)
        line = as_view_string(v, m->exe);
    as_bold(w, "%s", name);
    fprintf(w->out, " (pid %" PRIu32 ")  ", m->pid);
    size_t used = strlen(name) + 16;
    as_put(w, "%s\n", as_safe_text(line, SIZE_MAX, w->style->columns - used, w->style->ascii, command, sizeof command));
    as_put(w, "Rss ");
    as_bold(w, "%s", as_size_text(m->rss).text);
    uint64_t known = as_ledger_sum_up(&v->totals->ledger).known;
    if (m->rss == AS_UNKNOWN && known > 0)
        as_put(w, " (%s of it known)", as_size_text(known).text);
    as_put(w, ", swap %s, %" PRIu32 " thread%s, %s", as_size_text(m->swap).text, m->thread_count,
           m->thread_count == 1 ? "" : "s", as_malloc_kind_name(m->malloc_kind));
    if (m->malloc_kind == AS_MALLOC_GLIBC && v->malloc_count && *as_view_string(v, v->mallocs[0].version))
        as_put(w, " %s",
               as_safe_text(as_view_string(v, v->mallocs[0].version), SIZE_MAX, 12, true, command, sizeof command));
    if (as_format_time(m->time_ns, time))
        as_put(w, ", %.19sZ", time);
    as_put(w, "\n");
    const struct as_not_glibc *words = as_not_glibc_words(v);
    if (!words)
        return;
    as_safe_text(as_view_string(v, m->malloc_detail), SIZE_MAX, 200, w->style->ascii, command, sizeof command);
    as_wrapped(w, 0, "%s: %s. %s", words->says, command, words->memory);
}

static uint64_t cached_bytes(const struct as_tallies *t)
{
    return as_add(t->tcache.bytes, t->fastbin.bytes);
}

// Where residency is not known the chunks still are: how large they are, though not how much of them is in memory.
static void put_chunks(struct as_writer *w, const struct as_tallies *t)
{
    static const char *const labels[] = {"in use", "mmapped in use", "tcache", "fastbin", "free, in bins", "top"};
    const struct as_tally tallies[] = {t->in_use, t->mmapped, t->tcache, t->fastbin, t->binned, t->top};
    uint64_t largest = 0;
    for (size_t i = 0; i < sizeof tallies / sizeof tallies[0]; i++)
        largest = tallies[i].bytes != AS_UNKNOWN && tallies[i].bytes > largest ? tallies[i].bytes : largest;
    as_heading(w, "Chunks, resident or not (it is unknown which pages are resident)");
    for (size_t i = 0; i < sizeof tallies / sizeof tallies[0]; i++) {
        as_put(w, "  %-16s %11s ", labels[i], as_size_text(tallies[i].bytes).text);
        if (tallies[i].bytes == AS_UNKNOWN || tallies[i].count == AS_UNKNOWN) {
            as_put(w, "\n");
            continue;
        }
        as_bar(w, i < 2 ? 31 : 32, tallies[i].bytes, largest, BAR_COLUMNS);
        as_put(w, " %" PRIu64 " chunks\n", tallies[i].count);
    }
}

// The resident rows, largest first. Returns how many there are.
static size_t sort_rows(struct sorted_row sorted[AS_ROW_COUNT], const struct as_ledger *rows)
{
    size_t count = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].kind == AS_ROW_RESIDENT)
            sorted[count++] = (struct sorted_row){row, as_row_value(rows, row)};
    qsort(sorted, count, sizeof sorted[0], by_bytes);
    return count;
}

static void put_absent(struct as_writer *w, const struct as_ledger *rows)
{
    char line[400];
    size_t used = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++) {
        if (as_rows[row].kind == AS_ROW_ABSENT && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %s", used ? ", " : "",
                                     as_size_text(as_row_value(rows, row)).text, as_row_words[row].title);
    }
    as_wrapped(w, 2, "Not in Rss: %s.", line);
}

static void put_ledger(struct as_writer *w, const struct as_view *v)
{
    struct sorted_row sorted[AS_ROW_COUNT];
    size_t count = sort_rows(sorted, &v->totals->ledger);
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++)
        if (sorted[i].bytes != AS_UNKNOWN && sorted[i].bytes > largest)
            largest = sorted[i].bytes;

    // Shares are of Rss; of the rows that are known where Rss is not (a core).
    bool known = v->meta->rss != AS_UNKNOWN;
    uint64_t whole = known ? v->meta->rss : as_ledger_sum_up(&v->totals->ledger).known;
    as_heading(w, known ? "What holds it" : "What holds it, in shares of the known rows");
    AS_FOR_ITEMS(const struct sorted_row, s, sorted, count) {
        if (s->bytes == 0)
            continue;
        const struct as_row_words *words = &as_row_words[s->row];
        as_put(w, "  %-16s %11s ", words->title, as_size_text(s->bytes).text);
        as_put(w, "%7s ", as_share_text(s->bytes, whole).text);
        as_bar(w, colours[words->group], s->bytes == AS_UNKNOWN ? 0 : s->bytes, largest, BAR_COLUMNS);
        as_dim(w, " %.*s", (int)(w->style->columns - 50), as_row_meaning(s->row, v));
        as_put(w, "\n");
    }
    put_absent(w, &v->totals->ledger);
}

static void put_forecast(struct as_writer *w, const struct as_view *v)
{
    const struct as_ledger *l = &v->totals->ledger;
    uint64_t deeper = as_ledger_sum_up(&v->totals->ledger).deep_trim_adds;
    as_heading(w, "What would come back");
    as_put(w, "  malloc_trim(0)   ");
    as_bold(w, "%11s", as_size_text(l->malloc_trim).text);
    // A dump or a core has no process that one could ask.
    bool any = l->malloc_trim != AS_UNKNOWN && l->malloc_trim != 0;
    bool more = deeper != AS_UNKNOWN && deeper != 0;
    if (any && w->style->live)
        as_put(w, "  arenadump trim %" PRIu32, v->meta->pid);
    as_put(w, "\n  a deep trim adds ");
    as_bold(w, "%11s", as_size_text(deeper).text);
    if (more && w->style->live)
        as_put(w, "  arenadump trim %" PRIu32 " --deep", v->meta->pid);
    else if (more)
        as_put(w, "  tops of thread arenas: malloc_trim never does");
    as_put(w, "\n");
}

static void put_threads(struct as_writer *w, const struct as_view *v, const struct as_arena_threads *threads,
                        uint32_t arena)
{
    char line[600] = "", name[80];
    size_t used = 0, shown = 0;
    uint64_t first = threads->first[arena], end = threads->first[arena + 1];
    for (uint64_t i = first; i < end && shown < MAX_THREADS; i++, shown++) {
        const struct as_thread_record *t = &v->threads[threads->order[i]];
        as_safe_text(t->name, sizeof t->name, 40, w->style->ascii, name, sizeof name);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s%s%" PRIu32, i > first ? ", " : "", name,
                                 *name ? " " : "tid ", t->tid);
    }
    if (end - first > shown)
        snprintf(line + used, sizeof line - used, " and %" PRIu64 " more", end - first - shown);
    as_wrapped(w, 4, "at 0x%" PRIx64 ": %s", v->arenas[arena].address, end > first ? line : "no thread found");
}

// The columns of an arena: resident bytes; of chunks where residency is not known.
enum { ARENA_CELLS = 5 };

static void arena_cells(const struct as_view *v, const struct as_arena_record *a, uint64_t cells[ARENA_CELLS])
{
    const struct as_ledger *l = &a->ledger;
    const struct as_tallies *t = &a->chunks;
    if (v->meta->flags & AS_META_RESIDENCY_KNOWN)
        memcpy(cells,
               (uint64_t[]){l->in_use, as_ledger_sum_up(&a->ledger).cached, l->releasable, l->withheld, l->stranded},
               ARENA_CELLS * sizeof *cells);
    else
        memcpy(cells, (uint64_t[]){t->in_use.bytes, cached_bytes(t), t->binned.bytes, t->top.bytes, a->system_mem},
               ARENA_CELLS * sizeof *cells);
}

// What makes an arena a bad one: bytes that the application freed. Unknown is the least.
static uint64_t freed_bytes(const struct as_view *v, uint32_t arena)
{
    const struct as_arena_record *a = &v->arenas[arena];
    const struct as_tallies *t = &a->chunks;
    uint64_t idle = v->meta->flags & AS_META_RESIDENCY_KNOWN
                        ? as_ledger_sum_up(&a->ledger).free
                        : as_add(cached_bytes(t), as_add(t->binned.bytes, t->top.bytes));
    return idle == AS_UNKNOWN ? 0 : idle;
}

static void put_arenas(struct as_writer *w, const struct as_view *v, const struct as_arena_threads *threads)
{
    struct as_largest worst = {.most = WORST};
    for (uint32_t i = 0; i < v->arena_count; i++)
        as_largest_offer(&worst, i, freed_bytes(v, i));
    if (worst.count == 0)
        return;
    if (v->arena_count > worst.count)
        as_heading(w, "The %" PRIu32 " of %" PRIu64 " arenas with the most free memory", worst.count, v->arena_count);
    else
        as_heading(w, "Arenas");
    bool resident = v->meta->flags & AS_META_RESIDENCY_KNOWN;
    as_dim(w, "  %-16s %5s %10s %10s %10s %10s %10s", "", "heaps", "in use", "cached",
           resident ? "releasable" : "in bins", resident ? "withheld" : "top", resident ? "stranded" : "system_mem");
    as_put(w, "\n");
    for (uint32_t i = 0; i < worst.count; i++) {
        uint32_t index = (uint32_t)worst.index[i];
        const struct as_arena_record *a = &v->arenas[index];
        char label[AS_ARENA_NAME];
        uint64_t cells[ARENA_CELLS];
        arena_cells(v, a, cells);
        as_put(w, "  %-16s %5" PRIu32, as_arena_name(v, index, label), a->heap_count);
        for (int c = 0; c < ARENA_CELLS; c++)
            as_put(w, " %10s", as_size_text(cells[c]).text);
        as_put(w, "\n");
        put_threads(w, v, threads, index);
    }
}

static void put_pins(struct as_writer *w, const struct as_view *v, const struct as_pins *pins)
{
    if (pins->count == 0)
        return;
    as_heading(w, "Pins: chunks in use that keep free memory from being returned");
    as_dim(w, "  %12s %10s %11s %11s %8s %11s", "chunk size", "count", "pages kept", "stranded", "last", "free below");
    as_put(w, "\n");
    for (uint64_t i = 0; i < pins->count && i < WORST; i++) {
        const struct as_size_record *s = &v->sizes[pins->order[i]];
        char pages[24];
        snprintf(pages, sizeof pages, s->pin_pages == UINT64_MAX ? "unknown" : "%" PRIu64, s->pin_pages);
        as_put(w, "  %10" PRIu64 " B %10" PRIu64 " %11s %11s %8" PRIu64 " %11s\n", s->chunk_size, s->pin_count, pages,
               as_size_text(s->pin_stranded).text, s->tail_count, as_size_text(s->tail_bytes).text);
    }
}

// What stands on the pages that have stranded bytes.
static void put_stranded(struct as_writer *w, const struct as_view *v)
{
    static const struct {
        uint32_t chunks;
        const char *title;
    } classes[] = {{0, "none in use"}, {1, "1 chunk"}, {2, "2 chunks"}, {3, "3 or 4"}, {5, "5 to 8"}, {9, "9 or more"}};
    if (v->fill_count == 0)
        return;
    as_heading(w, "Stranded pages: how many chunks in use keep each of them");
    as_dim(w, "  %-12s %10s %11s %11s", "on a page", "pages", "in use", "stranded");
    as_put(w, "\n");
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        uint64_t pages = 0, in_use = 0, stranded = 0;
        for (uint64_t i = 0; i < v->fill_count; i++) {
            if (v->page_fill[i].chunks != classes[k].chunks)
                continue;
            pages = as_add(pages, v->page_fill[i].pages);
            in_use = as_add(in_use, v->page_fill[i].in_use);
            stranded = as_add(stranded, v->page_fill[i].stranded);
        }
        if (pages > 0)
            as_put(w, "  %-12s %10" PRIu64 " %11s %11s\n", classes[k].title, pages, as_size_text(in_use).text,
                   as_size_text(stranded).text);
    }
}

static void put_provenance(struct as_writer *w, const struct as_view *v)
{
    const struct as_meta_record *m = v->meta;
    const char *source = v->malloc_count ? as_source_name(v->mallocs[0].layout_source) : NULL;
    char stood[120] = "";
    if (m->mode == AS_MODE_FREEZE || m->mode == AS_MODE_CLONE)
        snprintf(stood, sizeof stood, "the target stood still for %s, ", as_duration_text(m->pause_ns).text);
    as_heading(w, "How this was found");
    as_wrapped(w, 2, "Mode %s: %sreading took %s. Layout of malloc: %s. %s%s", as_mode_name(m->mode), stood,
               as_duration_text(m->read_ns).text, source ? source : "none found",
               m->flags & AS_META_EXACT ? "Exact: the rows sum to Rss to the byte."
               : m->mode == AS_MODE_LIVE || m->mode == AS_MODE_IN_PROCESS
                   ? "Not exact: the target ran on while it was read."
                   : "Not exact: see the warnings.",
               m->flags & AS_META_RESIDENCY_KNOWN ? "" : " For some pages it is unknown whether they are resident.");
    if (v->warning_count == 0)
        return;
    as_heading(w, "Warnings");
    for (uint64_t i = 0; i < v->warning_count && i < MAX_WARNINGS; i++) {
        char text[800];
        as_safe_text(as_view_string(v, v->warnings[i].text), SIZE_MAX, 500, w->style->ascii, text, sizeof text);
        as_wrapped(w, 2, "%s: %s", as_warning_name(v->warnings[i].code), text);
    }
    if (v->warning_count > MAX_WARNINGS)
        as_put(w, "  and %" PRIu64 " more: summary --json has them all\n", v->warning_count - MAX_WARNINGS);
}

bool as_summary_table(FILE *out, const struct as_view *v, const struct as_table_style *style, struct as_error *err)
{
    struct as_arena_threads threads = {0};
    struct as_pins pins = {0};
    struct as_writer writer = {out, style};
    bool ok = as_arena_threads_sort(&threads, v, err) && as_pins_sort(&pins, v, err);
    if (ok) {
        put_header(&writer, v);
        ok = as_summary_verdict(&writer, v, err);
        if (v->meta->flags & AS_META_RESIDENCY_KNOWN) {
            put_ledger(&writer, v);
            put_forecast(&writer, v);
        } else {
            put_chunks(&writer, &v->totals->chunks);
        }
        put_arenas(&writer, v, &threads);
        put_pins(&writer, v, &pins);
        put_stranded(&writer, v);
        as_summary_objects(&writer, v);
        put_provenance(&writer, v);
    }
    as_arena_threads_free(&threads);
    as_pins_free(&pins);
    return ok;
}
