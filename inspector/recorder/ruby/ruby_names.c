// SPDX-License-Identifier: MIT
// What a frame is called, at its first sight: the names are copied, as a garbage collection may move or free them.
#include "recorder/ruby/ruby.h"

#include <string.h>

// 0: it has none. The place is where the frame goes on: the word before belongs to the
// instruction that it is in.
static uint64_t line_at(uintptr_t body, int64_t at)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    struct as_cruby_text lines, positions;
    if (!as_cruby_lines(body, &lines, &positions))
        return 0;
    uint64_t count = lines.length / l->line_size, word = (uint64_t)at / sizeof(uintptr_t);
    word -= word > 0;
    uint64_t rank = count == 1 ? 1 : as_cruby_rank(&positions, word);
    int32_t line = rank > 0 && rank <= count ? (int32_t)as_inner_half(lines.at + (rank - 1) * l->line_size) : 0;
    return line > 0 ? (uint64_t)line : 0;
}

// As much as there is room for.
static void copy_text(const struct as_cruby_text *text, char *to, size_t room)
{
    size_t length = text->length < room ? text->length : room - 1;
    memcpy(to, (const void *)text->at, length);
    to[length] = '\0';
}

uint64_t as_cruby_name(struct as_inner_walk *walk, const struct as_inner_frame *frame)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    struct as_cruby_text text;
    uintptr_t body = as_inner_word(frame->code + AS_CRUBY_BODY);
    walk->name[0] = walk->file[0] = '\0';
    if (as_cruby_text(as_inner_word(body + l->label), &text))
        copy_text(&text, walk->name, sizeof walk->name);
    if (as_cruby_file(body, &text))
        copy_text(&text, walk->file, sizeof walk->file);
    return as_inner_line(walk, (uint32_t)(as_inner_word(body + l->first_line) >> l->first_line_shift),
                         line_at(body, frame->at - (int64_t)as_inner_word(body + AS_CRUBY_INSTRUCTIONS)));
}
