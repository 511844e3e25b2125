// SPDX-License-Identifier: MIT
// One heap in detail: a page is a block (16 x 16 for 4 KiB), a pixel is 16 bytes, row by row within the block.
#include "png/pictures.h"

#include "model/chunks.h"
#include "png/image.h"

#include <inttypes.h>
#include <string.h>

enum {
    ROWS_PER_PICTURE = 4352,   // rows of pixels: 16384 pages of 4 KiB, a full heap of a thread arena
    LABEL_EVERY = 4,           // rows of pages between two addresses
    MAX_UNITS = AS_ACROSS * 64 // 16-byte units in a row of pages: all block widths times the largest block height
};

// How the pages of this page size are laid out.
struct grid {
    uint32_t page_size, units; // of a page
    uint32_t width, height;    // of its block; a power of two each, the width never the smaller
    uint32_t columns;
    uint64_t pages; // in one picture
};

// A heap on its way through one or several pictures.
struct heap_painter {
    const struct as_view *view;
    const struct as_heap_record *heap;
    const char *title;
    struct grid grid;
    uint64_t from, to; // the pages of the picture being drawn
    struct as_chunk_cursor cursor;
    struct as_chunk_entry chunk; // the last one taken from the cursor; it may reach into rows to come
    bool more;                   // `chunk` is one
    uint8_t kinds[MAX_UNITS];
};

enum { OUTSIDE = 0xff };

static struct grid grid_of(uint32_t page_size)
{
    struct grid g = {.page_size = page_size, .units = page_size / AS_UNIT, .width = 1, .height = 1};
    while (g.width * g.height < g.units) {
        if (g.width <= g.height)
            g.width *= 2;
        else
            g.height *= 2;
    }
    g.columns = AS_ACROSS / g.width;
    g.pages = (uint64_t)g.columns * (ROWS_PER_PICTURE / (g.height + 1));
    return g;
}

// The class of each 16 bytes of [start, start + count units); what no chunk record covers is unknown.
static void classify_units(struct heap_painter *p, uint64_t start, uint32_t count)
{
    const struct as_heap_record *heap = p->heap;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address = start + i * (uint64_t)AS_UNIT;
        p->kinds[i] = address + AS_UNIT > heap->start && address < heap->end ? AS_CHUNK_UNKNOWN : OUTSIDE;
    }
    uint64_t bytes = count * (uint64_t)AS_UNIT;
    while (p->more) {
        // Offsets from `start`, so that nothing overflows at the end of the address space.
        uint64_t skip = p->chunk.address > start ? p->chunk.address - start : 0;
        if (skip >= bytes)
            return;
        uint64_t before = p->chunk.address > start ? 0 : start - p->chunk.address;
        if (before < p->chunk.size) {
            uint64_t length = p->chunk.size - before;
            bool goes_on = length > bytes - skip;
            if (goes_on)
                length = bytes - skip;
            memset(p->kinds + skip / AS_UNIT, p->chunk.kind, length / AS_UNIT);
            if (goes_on)
                return;
        }
        p->more = as_chunk_next(&p->cursor, &p->chunk);
    }
}

static void draw_block(struct as_image *image, const struct heap_painter *p, uint32_t column, uint64_t page)
{
    const struct as_page_record *record = &p->view->pages[p->heap->first_page + page];
    const uint8_t *kinds = p->kinds + column * p->grid.units;
    uint32_t x = AS_LEFT + column * (p->grid.width + 1);
    for (uint32_t y = 0; y < p->grid.height; y++) {
        uint8_t *row = image->band + (size_t)y * image->width + x;
        for (uint32_t i = 0; i < p->grid.width; i++) {
            uint8_t kind = *kinds++;
            row[i] = kind == OUTSIDE ? AS_COLOUR_OUTSIDE : as_colour_of_bytes((enum as_chunk_class)kind, record);
        }
    }
}

static bool draw_row(struct as_image *image, struct heap_painter *p, uint64_t page, uint64_t row)
{
    if (as_image_band(image)) {
        uint64_t address = (p->heap->start / p->grid.page_size + page) * p->grid.page_size;
        uint64_t pages = p->to - page < p->grid.columns ? p->to - page : p->grid.columns;
        classify_units(p, address, (uint32_t)pages * p->grid.units);
        for (uint32_t column = 0; column < pages; column++)
            draw_block(image, p, column, page + column);
        if (row % LABEL_EVERY == 0) {
            char label[24];
            snprintf(label, sizeof label, "%14" PRIx64, address);
            as_image_letters(image, 4, (p->grid.height - AS_FONT_HEIGHT) / 2, 1, label);
        }
    }
    return as_image_emit(image, p->grid.height + 1);
}

static bool draw_picture(struct as_image *image, void *context)
{
    struct heap_painter *p = context;
    char text[160];
    if (!as_picture_title(image, p->view, p->title))
        return false;
    snprintf(text, sizeof text,
             "A block is a page of %" PRIu32 " KiB, a pixel is 16 bytes. Pages %" PRIu64 " to %" PRIu64 " of %" PRIu64
             ".",
             p->grid.page_size / 1024, p->from + 1, p->to, p->heap->page_count);
    if (!as_image_line(image, AS_RIGHT, 1, text) || !as_image_gap(image, 6))
        return false;
    uint64_t row = 0;
    for (uint64_t page = p->from; page < p->to; page += p->grid.columns) {
        if (!draw_row(image, p, page, row++))
            return false;
    }
    return as_image_gap(image, 12) && as_image_legend(image) && as_image_gap(image, 8);
}

bool as_draw_heap(struct as_drawing *d, const struct as_heap_record *heap, const char *name, const char *title,
                  struct as_error *err)
{
    struct heap_painter p = {
        .view = d->view,
        .heap = heap,
        .title = title,
        .grid = grid_of(d->view->meta->page_size),
        .cursor = as_chunks_of(d->view, heap),
    };
    p.more = as_chunk_next(&p.cursor, &p.chunk);
    uint32_t width = AS_LEFT + p.grid.columns * (p.grid.width + 1) + AS_RIGHT;
    for (uint64_t part = 0; p.to < heap->page_count; part++) {
        p.from = p.to;
        p.to = heap->page_count - p.from < p.grid.pages ? heap->page_count : p.from + p.grid.pages;
        char file[80];
        if (heap->page_count <= p.grid.pages)
            snprintf(file, sizeof file, "%s.png", name);
        else
            snprintf(file, sizeof file, "%s-part-%02" PRIu64 ".png", name, part + 1);
        if (!as_image_write(d->options->file, d->options->directory, file, width, d->options->palette, false,
                            draw_picture, &p, err))
            return false;
        d->result->pictures++;
        fprintf(d->readme, "%-36s %s, pages %" PRIu64 " to %" PRIu64 "\n", file, title, p.from + 1, p.to);
    }
    // What is left of the records lies beyond the last page.
    while (p.more)
        p.more = as_chunk_next(&p.cursor, &p.chunk);
    d->result->torn_heaps += p.cursor.torn;
    return true;
}
