// SPDX-License-Identifier: MIT
// One picture, written from top to bottom in bands of a few rows, so that a heap of any size takes little memory.
// A PNG begins with its height: whoever draws does so twice, first measuring, then for good.
#pragma once

#include "base/output.h"
#include "png/palette.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AS_BAND_ROWS = 72 }; // a block of a 64 KiB page is 64 rows

struct as_image {
    uint32_t width;
    uint64_t height; // so far
    bool measuring;  // bands are counted, not drawn
    uint8_t *
        band; // AS_BAND_ROWS rows of `width` pixels, each an as_colour; of means, each three bytes of red, green and blue
    bool means; // a pixel may have any colour
    enum as_palette palette;
    struct as_output *file;
    uint64_t written; // bytes of the file
    void *png, *info; // libpng's
    struct as_error *err;
};

// Draws a picture, of as_colours alone or of `means`, which may have any colour: calls `draw` twice with the same `context`, and puts the
// file called `name` into `directory`. `file` is the
// caller's, closed, so that it can be abandoned from a signal handler.
bool as_image_write(struct as_output *file, int directory, const char *name, uint32_t width, enum as_palette palette,
                    bool means, bool (*draw)(struct as_image *image, void *context), void *context,
                    struct as_error *err);

// The next band, all background, to be drawn upon; NULL while measuring. as_image_emit ends it.
uint8_t *as_image_band(struct as_image *image);
// Writes the first `rows` rows of the band.
bool as_image_emit(struct as_image *image, uint32_t rows);

// Draws into the band's rows from `y` on, cut at the right edge; one dot of a letter is `scale` pixels wide and high.
void as_image_letters(struct as_image *image, uint32_t x, uint32_t y, uint32_t scale, const char *text);
void as_image_fill(struct as_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                   enum as_colour colour);

// As as_image_fill, with any colour. Only in a picture of means.
void as_image_fill_mean(struct as_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                        const uint8_t rgb[3]);

// A whole line of text as a band of its own.
bool as_image_line(struct as_image *image, uint32_t x, uint32_t scale, const char *text);
// An empty band.
bool as_image_gap(struct as_image *image, uint32_t rows);
// The legend.
bool as_image_legend(struct as_image *image);

// The letters of the pictures' titles and legends: printable ASCII, drawn for this project.
enum { AS_FONT_WIDTH = 5, AS_FONT_HEIGHT = 8, AS_FONT_ADVANCE = 6 };

// The rows of a letter; '?' for one that the font has not.
const uint8_t *as_font_glyph(char letter);
