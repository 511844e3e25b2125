// SPDX-License-Identifier: MIT
// Writes to a terminal: headings, bars and wrapped lines, in the style that the terminal can take.
#pragma once

#include "cli/summary/summary.h"

struct as_writer {
    FILE *out;
    const struct as_table_style *style;
};

void as_put(struct as_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void as_bold(struct as_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void as_dim(struct as_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
// An empty line, then the text in bold on a line of its own.
void as_heading(struct as_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Words wrapped at the terminal's width, each line indented.
void as_wrapped(struct as_writer *w, unsigned indent, const char *format, ...) __attribute__((format(printf, 3, 4)));
// `value` of `largest` as a bar in the colour (an SGR number), padded to `columns`. At least one mark unless 0.
void as_bar(struct as_writer *w, int colour, uint64_t value, uint64_t largest, unsigned columns);
