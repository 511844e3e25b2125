// SPDX-License-Identifier: MIT
// The letters of the pictures' titles and legends: printable ASCII, drawn for this project.
#pragma once

#include <stdint.h>

enum { AS_FONT_WIDTH = 5, AS_FONT_HEIGHT = 8, AS_FONT_ADVANCE = 6 };

// The rows of a letter; '?' for one that the font has not.
const uint8_t *as_font_glyph(char letter);
