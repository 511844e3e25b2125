// SPDX-License-Identifier: MIT
// A directory of cores, each an image (image.h) in which malloc has been found.
#pragma once

#include "image.h"

#include "libc/libc.h"

enum { MOST_IMAGES = 24 };

struct fuzzed {
    struct image image; // first: image_try gives it to `snapshot`
    struct as_malloc malloc;
    bool typed; // by debug information
};

// Opens the cores in the directory that the environment variable `variable` names, in the order of their names, and
// calls `prepare` for each. Ends the program, with a message, where there are none, or too many.
void images_open(const char *variable, void (*prepare)(struct fuzzed *f, const char *name));

// The image that a byte of an input chooses.
struct fuzzed *images_choose(uint8_t byte);
