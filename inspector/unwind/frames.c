// SPDX-License-Identifier: MIT
#include "unwind/frames.h"

#include <elf.h>

// DWARF's names for how a pointer is written.
enum { ENCODED_ABSOLUTE = 0, ENCODED_ULEB = 1, ENCODED_SLEB = 9, ENCODED_OMITTED = 0xff };
enum { RELATIVE_TO_NOTHING = 0, RELATIVE_TO_PLACE = 0x10, RELATIVE_TO_BASE = 0x30, RELATIVE = 0x70, INDIRECT = 0x80 };

const struct as_unwind_numbers *as_unwind_numbers(uint16_t machine)
{
    static const struct as_unwind_numbers x86_64 = {.sp = 7, .fp = 6, .third = 3, .ra = 16};
    static const struct as_unwind_numbers aarch64 = {.sp = 31, .fp = 29, .third = 30, .ra = 30};
    return machine == EM_X86_64 ? &x86_64 : machine == EM_AARCH64 ? &aarch64 : NULL;
}

struct as_bytes as_frames_at(const struct as_unwind_image *image, uint64_t address)
{
    uint64_t offset = address - image->address;
    bool inside = offset < image->size;
    const uint8_t *end = image->bytes + image->size;
    return (struct as_bytes){.at = inside ? image->bytes + offset : end, .end = end, .bad = !inside};
}

// How many bytes a pointer of that format has; 0: their number varies.
static size_t format_size(uint8_t format)
{
    static const uint8_t sizes[] = {[0] = 8, [2] = 2, [3] = 4, [4] = 8, [10] = 2, [11] = 4, [12] = 8};
    return format < sizeof sizes ? sizes[format] : 0;
}

bool as_frames_pointer(const struct as_unwind_image *image, struct as_bytes *b, uint8_t encoding, uint64_t base,
                       uint64_t *value)
{
    uint64_t place = image->address + (uint64_t)(b->at - image->bytes);
    uint8_t format = encoding & 15;
    size_t size = format_size(format);
    if (encoding == ENCODED_OMITTED || (encoding & INDIRECT))
        return false;
    if (format == ENCODED_ULEB || format == ENCODED_SLEB)
        *value = as_bytes_leb(b, format == ENCODED_SLEB);
    else if (size > 0)
        *value = format > 8 ? (uint64_t)as_bytes_signed(b, size) : as_bytes_number(b, size);
    else
        return false;
    uint8_t relative = encoding & RELATIVE;
    *value += relative == RELATIVE_TO_PLACE ? place : relative == RELATIVE_TO_BASE ? base : 0;
    return !b->bad &&
           (relative == RELATIVE_TO_NOTHING || relative == RELATIVE_TO_PLACE || relative == RELATIVE_TO_BASE);
}

// What the letters of a CIE's augmentation say. False: one of them is not known, so that what stands behind it is not either.
static bool read_augmentation(struct as_cie *cie, struct as_bytes *b, const char *letters)
{
    if (!*letters)
        return true;
    if (*letters != 'z')
        return false;
    cie->has_sizes = true;
    uint64_t size = as_bytes_uleb(b);
    const uint8_t *data = as_bytes_take(b, size);
    if (!data)
        return false;
    struct as_bytes in = {.at = data, .end = data + size};
    for (const char *letter = letters + 1; *letter; letter++) {
        if (*letter == 'R') {
            cie->encoding = (uint8_t)as_bytes_number(&in, 1);
        } else if (*letter == 'S') {
            cie->is_signal = true;
        } else if (*letter == 'L') {
            as_bytes_take(&in, 1);
        } else if (*letter == 'P') {
            uint8_t encoding = (uint8_t)as_bytes_number(&in, 1);
            if (format_size(encoding & 15) == 0)
                return false;
            as_bytes_take(&in, format_size(encoding & 15));
        } else if (*letter != 'B' && *letter != 'G') { // aarch64: which key signs, and tagged memory
            return false;
        }
    }
    return !in.bad;
}

// An entry's bytes behind its length; false for a terminator, damage, and the 64-bit format, which nobody writes.
static bool read_entry(const struct as_unwind_image *image, uint64_t address, struct as_bytes *entry, uint64_t *next)
{
    struct as_bytes b = as_frames_at(image, address);
    uint64_t length = as_bytes_number(&b, 4);
    const uint8_t *at = length == 0 || length == UINT32_MAX ? NULL : as_bytes_take(&b, length);
    *next = at ? address + 4 + length : 0;
    if (at)
        *entry = (struct as_bytes){.at = at, .end = at + length};
    return at;
}

static bool read_cie(const struct as_unwind_image *image, uint64_t address, struct as_cie *cie)
{
    struct as_bytes b;
    uint64_t next;
    if (!read_entry(image, address, &b, &next) || as_bytes_number(&b, 4) != 0)
        return false;
    *cie = (struct as_cie){.offset = address};
    uint64_t version = as_bytes_number(&b, 1);
    const char *letters = (const char *)b.at;
    const uint8_t *nul = memchr(b.at, '\0', as_bytes_left(&b));
    if (!nul || (version != 1 && version != 3))
        return false;
    b.at = nul + 1;
    cie->code_align = as_bytes_uleb(&b);
    cie->data_align = as_bytes_sleb(&b);
    cie->ra = version == 1 ? as_bytes_number(&b, 1) : as_bytes_uleb(&b);
    if (!read_augmentation(cie, &b, letters))
        return false;
    cie->program = b;
    return !b.bad;
}

bool as_frames_read(const struct as_unwind_image *image, uint64_t address, struct as_cie *cie, struct as_fde *fde,
                    uint64_t *next)
{
    struct as_bytes b;
    if (!read_entry(image, address, &b, next))
        return false;
    uint64_t back = as_bytes_number(&b, 4);
    if (back == 0 || b.bad)
        return false;
    uint64_t owner = address + 4 - back;
    if (cie->offset != owner && !read_cie(image, owner, cie)) {
        cie->offset = UINT64_MAX;
        return false;
    }
    uint64_t size = 0;
    if (!as_frames_pointer(image, &b, cie->encoding, 0, &fde->start) ||
        !as_frames_pointer(image, &b, cie->encoding & 15, 0, &size))
        return false;
    fde->end = fde->start + size;
    if (cie->has_sizes)
        as_bytes_take(&b, as_bytes_uleb(&b));
    fde->program = b;
    return !b.bad && fde->end > fde->start;
}
