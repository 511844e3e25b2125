// SPDX-License-Identifier: MIT
// Heat maps of a view: for each heap pictures in which a pixel is 16 bytes, for each arena pictures with one cell a page.
#pragma once

#include "base/error.h"
#include "base/output.h"
#include "model/view.h"
#include "png/palette.h"

struct as_png_options {
    int directory; // open, to write into
    enum as_palette palette;
    uint32_t scale;         // pixels that a page takes in each direction in an overview: 1 to 16
    struct as_output *file; // closed; the file being written, for a signal handler to abandon
};

struct as_png_result {
    uint64_t pictures;
    uint64_t torn_heaps; // heaps whose chunk records did not cover them: what was missing is drawn as unknown
};

// Draws every heap (when the view has chunk records) and every arena, and writes README.txt, which names the files.
// Existing regular files of the same names are replaced. AS_IO, AS_NO_MEMORY.
bool as_png_draw(const struct as_view *v, const struct as_png_options *options, struct as_png_result *result,
                 struct as_error *err);
