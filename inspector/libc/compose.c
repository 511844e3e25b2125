// SPDX-License-Identifier: MIT
// What an answer says of the layout, with what the object's text and live memory say.
#include "libc/layouts.h"
#include "libc/sources.h"

const struct as_banner *as_object_banner(struct as_object *object)
{
    if (!object->has_text)
        as_banner_read(&object->text, object->elf);
    object->has_text = true;
    return &object->text;
}

void as_object_compose(const struct as_banner *text, const uint32_t *live, size_t live_count, struct as_answer *answer)
{
    if (answer->source == AS_LAYOUT_DWARF)
        return; // its layout is the compiler's own
    uint32_t hints[12];
    size_t count = 0;
    while (count < live_count && count < 8) {
        hints[count] = live[count];
        count++;
    }
    if (text->complete)
        hints[count++] = as_layout_rows_with_linking(text->safe_linking);
    // A message of 2.42 alone: without it, all but 2.42.
    uint32_t only = as_layout_rows_of_version("2.42");
    if (text->fastbin_size)
        hints[count++] = only;
    else if (text->complete)
        hints[count++] = AS_LAYOUT_ALL_ROWS & ~only;
    hints[count++] = as_layout_rows_of_version(text->version);
    as_layout_compose(&answer->layout, answer->state_rows, answer->par_rows, answer->has_tcache, hints, count);
}
