// SPDX-License-Identifier: MIT
// Which pictures there are, and what they are called.
#include "png/pictures.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// An arena's name as the beginning of a file name: "arena 3" is arena-03, so that files sort; "main arena" main-arena.
static void file_label(const struct as_view *v, uint32_t arena, char *out, size_t size)
{
    char name[AS_ARENA_NAME];
    const char *number = strrchr(as_arena_name(v, arena, name), ' ');
    number = number && isdigit((unsigned char)number[1]) ? number : NULL;
    if (v->arenas[arena].flags & AS_ARENA_MAIN)
        snprintf(out, size, "main-arena%s%s", number ? "-" : "", number ? number + 1 : "");
    else
        snprintf(out, size, "arena-%02" PRIu32, arena);
}

// The report's page has the same names (page_text.js, KINDS).
static const char *kind_name(uint32_t kind)
{
    return kind == AS_HEAP_BRK ? "brk segment" : kind == AS_HEAP_MMAP ? "mmapped segment" : "heap of a thread arena";
}

static bool draw_arena(struct as_drawing *d, uint32_t index, struct as_error *err)
{
    const struct as_arena_record *arena = &d->view->arenas[index];
    char label[40], called[AS_ARENA_NAME], name[64], title[120], size[24];
    file_label(d->view, index, label, sizeof label);
    as_arena_name(d->view, index, called);
    snprintf(name, sizeof name, "%s-overview", label);
    snprintf(title, sizeof title, "%s at 0x%" PRIx64, called, arena->address);
    uint64_t end = (uint64_t)arena->first_heap + arena->heap_count;
    if (!as_draw_overview(d, arena->first_heap, end, name, title, err))
        return false;
    for (uint64_t i = arena->first_heap; i < end && d->view->chunks; i++) {
        const struct as_heap_record *heap = &d->view->heaps[i];
        uint64_t number = i - arena->first_heap;
        as_picture_size(heap->end - heap->start, size, sizeof size);
        snprintf(name, sizeof name, "%s-heap-%02" PRIu64, label, number);
        snprintf(title, sizeof title, "%s, heap %" PRIu64 " (%s, %s)", called, number, kind_name(heap->kind), size);
        if (!as_draw_heap(d, heap, name, title, err))
            return false;
    }
    return true;
}

// Each run of mmapped chunks; they are the last heaps, so there is but one run in our own dumps.
static bool draw_mmapped(struct as_drawing *d, struct as_error *err)
{
    uint64_t first = 0;
    while (first < d->view->heap_count && d->view->heaps[first].arena != UINT32_MAX)
        first++;
    for (uint64_t i = first; i < d->view->heap_count; i++) {
        if (d->view->heaps[i].arena != UINT32_MAX)
            return as_fail(err, AS_BAD_INPUT, "the dump has mmapped chunks between heaps of arenas");
    }
    return first == d->view->heap_count ||
           as_draw_overview(d, first, d->view->heap_count, "mmapped-overview", "mmapped chunks", err);
}

static bool write_readme(const struct as_png_options *options, const char *text, size_t length, struct as_error *err)
{
    struct as_output *file = options->file;
    bool ok = as_output_begin_at(file, options->directory, "README.txt", err) &&
              as_output_write(file, text, length, 0, err) && as_output_finish(file, err);
    as_output_close(file);
    return ok;
}

bool as_png_draw(const struct as_view *v, const struct as_png_options *options, struct as_png_result *result,
                 struct as_error *err)
{
    *result = (struct as_png_result){0};
    char *text = NULL;
    size_t length = 0;
    FILE *readme = open_memstream(&text, &length);
    if (!readme)
        return as_fail(err, AS_NO_MEMORY, "no memory for the pictures' README.txt");
    fprintf(readme,
            "Pictures of the heaps of process %" PRIu32
            ", drawn by arenadump.\n*-overview.png: one cell for each page. *-heap-*.png: one block for each page, one "
            "pixel for 16 bytes.\nThe legend is in each picture.\n\n",
            v->meta->pid);
    struct as_drawing drawing = {v, options, result, readme};
    bool ok = true;
    for (uint32_t i = 0; ok && i < v->arena_count; i++)
        ok = draw_arena(&drawing, i, err);
    ok = ok && draw_mmapped(&drawing, err) && as_draw_runtimes(&drawing, err);
    if (!v->chunks)
        fprintf(readme, "\nThis dump has no chunk records, so there are overviews only: take it with --chunks.\n");
    if (result->torn_heaps)
        fprintf(readme, "\nThe chunk records of %" PRIu64 " heaps do not cover them: the rest is drawn as unknown.\n",
                result->torn_heaps);
    bool written = fclose(readme) == 0;
    ok = ok && (written || as_fail(err, AS_NO_MEMORY, "no memory for the pictures' README.txt")) &&
         write_readme(options, text, length, err);
    free(text);
    return ok;
}
