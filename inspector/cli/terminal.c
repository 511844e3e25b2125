// SPDX-License-Identifier: MIT
#include "cli/terminal.h"

#include <stdarg.h>
#include <string.h>

static void styled(struct as_writer *w, const char *sgr, const char *format, va_list args)
{
    if (w->style->colour)
        fprintf(w->out, "\033[%sm", sgr);
    vfprintf(w->out, format, args);
    if (w->style->colour)
        fputs("\033[0m", w->out);
}

void as_put(struct as_writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(w->out, format, args);
    va_end(args);
}

void as_bold(struct as_writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    styled(w, "1", format, args);
    va_end(args);
}

void as_dim(struct as_writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    styled(w, "2", format, args);
    va_end(args);
}

void as_heading(struct as_writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputc('\n', w->out);
    styled(w, "1", format, args);
    fputc('\n', w->out);
    va_end(args);
}

// Columns that a word takes: a byte that goes on a UTF-8 character takes none.
static unsigned columns_of(const char *word, size_t length)
{
    unsigned columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)word[i] & 0xc0) != 0x80;
    return columns;
}

void as_wrapped(struct as_writer *w, unsigned indent, const char *format, ...)
{
    char text[6000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    unsigned column = 0; // 0: at the start of a line
    for (const char *word = text + strspn(text, " "); *word;) {
        size_t length = strcspn(word, " ");
        unsigned columns = columns_of(word, length);
        if (column && column + 1 + columns > w->style->columns) {
            fputc('\n', w->out);
            column = 0;
        }
        fprintf(w->out, "%*s", (int)(column ? 1 : indent), "");
        column += (column ? 1 : indent) + columns;
        fwrite(word, 1, length, w->out);
        word += length;
        word += strspn(word, " ");
    }
    fputc('\n', w->out);
}

void as_bar(struct as_writer *w, int colour, uint64_t value, uint64_t largest, unsigned columns)
{
    unsigned marks = largest ? (unsigned)((double)value / (double)largest * columns + 0.5) : 0;
    if (marks == 0 && value)
        marks = 1;
    if (w->style->colour)
        fprintf(w->out, "\033[%dm", colour);
    for (unsigned i = 0; i < marks; i++)
        fputs(w->style->ascii ? "#" : "█", w->out);
    if (w->style->colour)
        fputs("\033[0m", w->out);
    fprintf(w->out, "%*s", (int)(columns - marks), "");
}
