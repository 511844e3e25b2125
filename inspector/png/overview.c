// SPDX-License-Identifier: MIT
// An arena at a glance: one cell a page, heap after heap.
#include "png/pictures.h"

#include <inttypes.h>

enum { MAX_ROWS = 12000, LABEL_ROWS = 16 }; // rows of pixels in one picture, titles not counted

struct overview_painter {
    const struct as_view *view;
    const char *title;
    uint32_t scale, columns;
    uint64_t end_heap;
    // Where the picture being drawn begins, and where the drawing of it stopped.
    uint64_t from_heap, from_page;
    uint64_t heap, page;
};

static bool draw_label(struct as_image *image, const struct as_heap_record *heap, uint64_t page)
{
    char text[160], size[24];
    as_picture_size(heap->end - heap->start, size, sizeof size);
    snprintf(text, sizeof text, "0x%" PRIx64 " to 0x%" PRIx64 ", %s, %" PRIu64 " pages%s", heap->start, heap->end, size,
             heap->page_count, page ? " (continued)" : "");
    if (as_image_band(image))
        as_image_letters(image, AS_RIGHT, 5, 1, text);
    return as_image_emit(image, LABEL_ROWS);
}

static bool draw_row(struct as_image *image, const struct overview_painter *p, const struct as_heap_record *heap)
{
    if (as_image_band(image)) {
        uint32_t gap = p->scale >= 6; // cells of this size can spare a pixel to be told apart
        uint64_t pages = heap->page_count - p->page;
        for (uint32_t column = 0; column < p->columns && column < pages; column++) {
            uint8_t rgb[3];
            as_mean_of_page(&p->view->pages[heap->first_page + p->page + column], image->palette, rgb);
            as_image_fill_mean(image, AS_RIGHT + column * p->scale, 0, p->scale - gap, p->scale - gap, rgb);
        }
    }
    return as_image_emit(image, p->scale);
}

static bool draw_picture(struct as_image *image, void *context)
{
    struct overview_painter *p = context;
    char text[120];
    snprintf(text, sizeof text,
             "A cell is a page of %" PRIu32 " KiB, in the mean of its bytes' colours; a row is %" PRIu32 " pages.",
             p->view->meta->page_size / 1024, p->columns);
    if (!as_picture_title(image, p->view, p->title) || !as_image_line(image, AS_RIGHT, 1, text) ||
        !as_image_gap(image, 6))
        return false;
    p->heap = p->from_heap;
    p->page = p->from_page;
    for (uint64_t limit = image->height + MAX_ROWS; p->heap < p->end_heap && image->height < limit;) {
        const struct as_heap_record *heap = &p->view->heaps[p->heap];
        if (!draw_label(image, heap, p->page))
            return false;
        for (; p->page < heap->page_count && image->height < limit; p->page += p->columns) {
            if (!draw_row(image, p, heap))
                return false;
        }
        if (p->page >= heap->page_count) {
            p->heap++;
            p->page = 0;
        }
    }
    return as_image_gap(image, 12) && as_image_legend(image) && as_image_gap(image, 8);
}

bool as_draw_overview(struct as_drawing *d, uint64_t first, uint64_t end, const char *name, const char *title,
                      struct as_error *err)
{
    struct overview_painter p = {
        .view = d->view,
        .title = title,
        .scale = d->options->scale,
        .columns = AS_ACROSS / d->options->scale,
        .from_heap = first,
        .end_heap = end,
    };
    uint32_t width = AS_RIGHT + AS_ACROSS + AS_RIGHT;
    for (uint64_t part = 1; p.from_heap < end; part++) {
        char file[80];
        if (part == 1)
            snprintf(file, sizeof file, "%s.png", name);
        else
            snprintf(file, sizeof file, "%s-part-%02" PRIu64 ".png", name, part);
        if (!as_image_write(d->options->file, d->options->directory, file, width, d->options->palette, true,
                            draw_picture, &p, err))
            return false;
        d->result->pictures++;
        fprintf(d->readme, "%-36s %s%s\n", file, title, part > 1 ? " (continued)" : "");
        p.from_heap = p.heap;
        p.from_page = p.page;
    }
    return true;
}
