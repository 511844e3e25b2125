// SPDX-License-Identifier: MIT
#include "libc/layouts.h"
#include "libc/sources.h"

bool as_accept_main_arena(const struct as_object *object, uint64_t address, struct as_answer *answer)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        uint64_t size = (uint64_t)as_layout_row(i)->state.size;
        least = size < least ? size : least;
    }
    const struct as_elf_load *load = as_elf_load_at(object->elf, address, least);
    if (!load || !(load->flags & PF_W) || address % 8)
        return false;
    uint32_t rows = AS_LAYOUT_ALL_ROWS;
    if (object->image.bytes.count) {
        const uint8_t *bytes = as_image_at(&object->image, address, least);
        if (!bytes)
            return false;
        rows = as_layout_rows_of_state_image(bytes, object->image.bytes.count - (address - object->image.address),
                                             address);
    }
    if (!rows)
        return false;
    answer->main_arena = address;
    answer->state_rows = rows;
    return true;
}
