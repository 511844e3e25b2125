// SPDX-License-Identifier: MIT
#include "png/palette.h"

#include <math.h>
#include <stddef.h>

const struct as_colour_info as_colours[AS_COLOUR_COUNT] = {
    [AS_COLOUR_BACKGROUND] = {.rgb = {{0x1f, 0x24, 0x30}, {0x1f, 0x24, 0x30}}},
    [AS_COLOUR_TEXT] = {.rgb = {{0xe8, 0xea, 0xee}, {0xe8, 0xea, 0xee}}},
    [AS_COLOUR_OUTSIDE] = {.rgb = {{0x33, 0x3a, 0x4a}, {0x33, 0x3a, 0x4a}}},
    [AS_COLOUR_USED] = {"in use", {{0xd6, 0x27, 0x28}, {0xd5, 0x5e, 0x00}}},
    [AS_COLOUR_PINNED] = {"pinned by one chunk", {{0x86, 0x0f, 0x14}, {0x7d, 0x36, 0x00}}},
    [AS_COLOUR_CACHED] = {"cached (tcache, fastbin)", {{0xf2, 0x9e, 0x2e}, {0xf0, 0xe4, 0x42}}},
    [AS_COLOUR_STRANDED] = {"free, stranded", {{0x70, 0x70, 0x70}, {0x70, 0x70, 0x70}}},
    [AS_COLOUR_RELEASABLE] = {"free, releasable", {{0xb9, 0xb9, 0xb9}, {0xb9, 0xb9, 0xb9}}},
    [AS_COLOUR_WITHHELD] = {"free, withheld", {{0x7d, 0x9f, 0xc9}, {0x56, 0xb4, 0xe9}}},
    [AS_COLOUR_RETURNED] = {"free, returned", {{0xff, 0xff, 0xff}, {0xff, 0xff, 0xff}}},
    [AS_COLOUR_UNTOUCHED] = {"never touched", {{0xf6, 0xd5, 0xd3}, {0xf8, 0xe0, 0xcc}}},
    [AS_COLOUR_USED_SWAPPED] = {"swapped in use", {{0x7b, 0x3a, 0x93}, {0xcc, 0x79, 0xa7}}},
    [AS_COLOUR_FREE_SWAPPED] = {"swapped free", {{0xcd, 0xab, 0xdb}, {0xeb, 0xcc, 0xdd}}},
    [AS_COLOUR_METADATA] = {"metadata", {{0x2f, 0x62, 0xb0}, {0x00, 0x72, 0xb2}}},
    [AS_COLOUR_UNKNOWN] = {"unknown", {{0xff, 0xe1, 0x4d}, {0x00, 0x9e, 0x73}}},
    [AS_COLOUR_FREE_UNKNOWN] = {"free, residency unknown", {{0xd8, 0xd3, 0xb0}, {0xd8, 0xd3, 0xb0}}},
};

// A free chunk's bytes on a resident page: whether the page goes back, and with what, was decided for the whole page.
static enum as_colour colour_of_free(const struct as_page_record *page)
{
    if (page->state == AS_PAGE_RELEASABLE)
        return AS_COLOUR_RELEASABLE;
    return page->state == AS_PAGE_WITHHELD ? AS_COLOUR_WITHHELD : AS_COLOUR_STRANDED;
}

enum as_colour as_colour_of_bytes(enum as_chunk_class kind, const struct as_page_record *page)
{
    bool resident = page->residency & AS_RES_PRESENT;
    bool swapped = page->residency & AS_RES_SWAPPED;
    bool unknown = page->residency & AS_RES_UNKNOWN;
    switch (kind) {
    case AS_CHUNK_IN_USE:
    case AS_CHUNK_METADATA:
        if (resident || unknown)
            return kind == AS_CHUNK_METADATA       ? AS_COLOUR_METADATA
                   : page->state == AS_PAGE_PINNED ? AS_COLOUR_PINNED
                                                   : AS_COLOUR_USED;
        return swapped ? AS_COLOUR_USED_SWAPPED : AS_COLOUR_UNTOUCHED;
    case AS_CHUNK_TCACHE:
    case AS_CHUNK_FASTBIN:
        if (page->state == AS_PAGE_RELEASABLE || page->state == AS_PAGE_WITHHELD)
            return colour_of_free(page); // malloc_trim takes what is in fastbins, too
        if (resident || unknown)
            return AS_COLOUR_CACHED;
        return swapped ? AS_COLOUR_FREE_SWAPPED : AS_COLOUR_RETURNED;
    case AS_CHUNK_BINNED:
    case AS_CHUNK_TOP:
        if (unknown)
            return AS_COLOUR_FREE_UNKNOWN;
        if (resident)
            return colour_of_free(page);
        if (swapped)
            return AS_COLOUR_FREE_SWAPPED;
        // An absent page of top was either returned or never written.
        return kind == AS_CHUNK_TOP && page->state == AS_PAGE_UNTOUCHED ? AS_COLOUR_UNTOUCHED : AS_COLOUR_RETURNED;
    default:
        if (resident || unknown)
            return AS_COLOUR_UNKNOWN;
        return swapped ? AS_COLOUR_USED_SWAPPED : AS_COLOUR_UNTOUCHED;
    }
}

static double linear(uint8_t encoded)
{
    double c = encoded / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static uint8_t encoded(double light)
{
    return (uint8_t)lround(255 * (light <= 0.0031308 ? light * 12.92 : 1.055 * pow(light, 1 / 2.4) - 0.055));
}

void as_mean_of_page(const struct as_page_record *page, enum as_palette palette, uint8_t rgb[3])
{
    const uint16_t units[] = {
        [AS_CHUNK_UNKNOWN] = page->unknown,   [AS_CHUNK_IN_USE] = page->in_use, [AS_CHUNK_TCACHE] = page->tcache,
        [AS_CHUNK_FASTBIN] = page->fastbin,   [AS_CHUNK_BINNED] = page->binned, [AS_CHUNK_TOP] = page->top,
        [AS_CHUNK_METADATA] = page->metadata,
    };
    uint32_t of_colour[AS_COLOUR_COUNT] = {0}, total = 0;
    enum as_colour last = AS_COLOUR_UNKNOWN;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i] == 0)
            continue;
        last = as_colour_of_bytes((enum as_chunk_class)i, page);
        of_colour[last] += units[i];
        total += units[i];
    }
    bool several = of_colour[last] != total;
    for (int channel = 0; channel < 3; channel++) {
        double light = 0;
        for (int i = 0; i < AS_COLOUR_COUNT && several; i++)
            light += of_colour[i] > 0 ? of_colour[i] * linear(as_colours[i].rgb[palette][channel]) : 0;
        rgb[channel] = several ? encoded(light / total) : as_colours[last].rgb[palette][channel];
    }
}
