// SPDX-License-Identifier: MIT
// A core that was real, kept in memory, of which each input changes some words.
#pragma once

#include "target/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_PATCHES = 64, IMAGE_REGIONS = 4096 };

// One change of one word, little-endian, as it stands in an input.
struct image_patch {
    uint8_t kind;
    int8_t delta;
    uint16_t wild;
    uint32_t word; // which
    uint32_t other;
};

struct image_region {
    uint64_t start, end;
    uint8_t *bytes;
    bool *present; // of each page: it was not all zeros
};

// Words that are changed more often than others.
struct image_span {
    uint64_t start, words;
};

struct image {
    struct as_target *core;
    struct as_target_ops ops;
    size_t (*read_core)(struct as_target *t, uint64_t address, void *buffer, size_t length);
    struct image_region
        regions[IMAGE_REGIONS]; // by address; in an array, as the leak detector sees no memory of AS_VEC's
    size_t region_count;
    AS_VEC(struct image_span) spans; // have a share by their words
    AS_VEC(struct image_span) heads; // have the same share each
    uint64_t words, span_words;
    uint64_t reads; // since the last input
};

// Opens the core that is called `path`; *image is zeros. Ends the program, with a message, where that fails.
void image_open(struct image *image, const char *path);

// From now on the target's memory is this image's. One image at a time.
void image_use(struct image *image);

// Adds words that are to be changed more often, where they are in the image.
void image_add_span(struct image *image, uint64_t start, uint64_t length);

// The same, of whatever is not 0.
void image_add_content(struct image *image);

// Adds the words that a structure begins with: each structure is changed as often as another, whatever their lengths.
void image_add_head(struct image *image, uint64_t start, uint64_t length);

// Applies the patches that `data` has, calls `snapshot`, and takes the patches back.
void image_try(struct image *image, const uint8_t *data, size_t size, void (*take_snapshot)(struct image *image));
