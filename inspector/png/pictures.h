// SPDX-License-Identifier: MIT
// What draws one kind of picture each, and what these share (picture.c).
#pragma once

#include "png/image.h"
#include "png/png.h"

#include <stdio.h>

enum {
    AS_LEFT = 100,    // where the pages begin; addresses stand left of them
    AS_ACROSS = 1024, // pixels of pages in a row, gaps not counted
    AS_RIGHT = 12,
};

struct as_drawing {
    const struct as_view *view;
    const struct as_png_options *options;
    struct as_png_result *result;
    FILE *readme;
};

// "64.0 MiB"
void as_picture_size(uint64_t bytes, char *out, size_t size);

// The first lines of every picture: what it shows, and of which process.
bool as_picture_title(struct as_image *image, const struct as_view *v, const char *title);

// Draws one heap, 16 bytes a pixel, as one picture or several. `name` is the files' without ".png".
bool as_draw_heap(struct as_drawing *d, const struct as_heap_record *heap, const char *name, const char *title,
                  struct as_error *err);

// Draws heaps `first` to `end` - 1, one cell a page, as one picture or several.
bool as_draw_overview(struct as_drawing *d, uint64_t first, uint64_t end, const char *name, const char *title,
                      struct as_error *err);

// Draws the heaps that runtimes keep beside malloc's, one cell a page: those whose pages the view has.
bool as_draw_runtimes(struct as_drawing *d, struct as_error *err);
