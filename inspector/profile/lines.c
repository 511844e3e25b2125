// SPDX-License-Identifier: MIT
#include "profile/parts.h"

// "": it is not there, or empty.
static uint32_t text_at(struct as_target *t, const struct as_profile_head *head, uint32_t at,
                        struct as_strings *strings)
{
    char text[AS_PROFILE_FUNCTION_FILE];
    uint64_t size = head->texts.size;
    uint64_t room = at < size && size - at < sizeof text ? size - at : sizeof text;
    if (at == 0 || at >= size || !as_target_read(t, head->self + head->texts.offset + at, text, room))
        return 0;
    return as_strings_add(strings, text, room);
}

uint32_t as_profile_read_line(struct as_target *t, const struct as_profile_head *head, uint64_t frame,
                              struct as_store *s, struct as_error *err)
{
    enum { INDEX_MASK = (1 << 24) - 1, LINE_MASK = (1 << AS_PROFILE_LINE_BITS) - 1 };
    struct as_profile_function f;
    uint64_t index = frame >> AS_PROFILE_LINE_BITS & INDEX_MASK;
    bool known = index != 0 && index < head->functions.size &&
                 as_target_read(t, head->self + head->functions.offset + index * sizeof f, &f, sizeof f);
    struct as_profile_line_record *line = as_vec_add(&s->profile_lines, err);
    if (!line)
        return 0;
    *line = (struct as_profile_line_record){.line = frame & LINE_MASK};
    line->function = known ? text_at(t, head, f.name, &s->strings) : 0;
    line->file = known ? text_at(t, head, f.file, &s->strings) : 0;
    const char *language = frame >> 48 == AS_PROFILE_RUBY ? "ruby" : "python";
    line->language = as_strings_add(&s->strings, language, SIZE_MAX);
    return (uint32_t)s->profile_lines.count;
}
