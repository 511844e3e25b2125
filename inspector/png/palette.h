// SPDX-License-Identifier: MIT
// The colours of the pictures, and which one a byte or a page gets. docs/user-guide.md#pictures shows them to people.
#pragma once

#include "model/records.h"

#include <stdbool.h>
#include <stdint.h>

// At most 16: a pixel takes four bits.
enum as_colour {
    AS_COLOUR_BACKGROUND,
    AS_COLOUR_TEXT,
    AS_COLOUR_OUTSIDE, // on a page of the heap, but not the heap's
    AS_COLOUR_USED,
    AS_COLOUR_PINNED, // in use, on a page where all else is free
    AS_COLOUR_USED_SWAPPED,
    AS_COLOUR_UNTOUCHED,
    AS_COLOUR_CACHED,
    AS_COLOUR_STRANDED,
    AS_COLOUR_RELEASABLE,
    AS_COLOUR_WITHHELD,
    AS_COLOUR_RETURNED,
    AS_COLOUR_FREE_SWAPPED,
    AS_COLOUR_METADATA,
    AS_COLOUR_UNKNOWN,
    AS_COLOUR_FREE_UNKNOWN, // free, but the target's residency cannot be known
    AS_COLOUR_COUNT
};

// phusion: red, grey and white, as in the article that this began with. safe: told apart with any colour vision.
enum as_palette { AS_PALETTE_PHUSION, AS_PALETTE_SAFE, AS_PALETTE_COUNT };

struct as_colour_info {
    const char *label;                // for the legend; NULL: not in it
    uint8_t rgb[AS_PALETTE_COUNT][3]; // by palette
};
extern const struct as_colour_info as_colours[AS_COLOUR_COUNT];

// The colour of 16 bytes of a chunk that lie on `page`.
enum as_colour as_colour_of_bytes(enum as_chunk_class kind, const struct as_page_record *page);

// The mean of the colours of a page's bytes, taken of light: so a page appears from afar as its bytes do close by.
void as_mean_of_page(const struct as_page_record *page, enum as_palette palette, uint8_t rgb[3]);
