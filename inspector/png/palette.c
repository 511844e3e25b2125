// SPDX-License-Identifier: MIT
#include "png/palette.h"

const struct as_colour_info as_colours[AS_COLOUR_COUNT] = {
    [AS_COLOUR_BACKGROUND] = {.rgb = {{0x1f, 0x24, 0x30}, {0x1f, 0x24, 0x30}}},
    [AS_COLOUR_TEXT] = {.rgb = {{0xe8, 0xea, 0xee}, {0xe8, 0xea, 0xee}}},
    [AS_COLOUR_OUTSIDE] = {.rgb = {{0x33, 0x3a, 0x4a}, {0x33, 0x3a, 0x4a}}},
    [AS_COLOUR_USED] = {"in use", {{0xd6, 0x27, 0x28}, {0xd5, 0x5e, 0x00}}, false, false},
    [AS_COLOUR_PINNED] = {"pinned by one chunk", {{0x86, 0x0f, 0x14}, {0x7d, 0x36, 0x00}}, true, false},
    [AS_COLOUR_CACHED] = {"cached (tcache, fastbin)", {{0xf2, 0x9e, 0x2e}, {0xf0, 0xe4, 0x42}}, false, false},
    [AS_COLOUR_STRANDED] = {"free, stranded", {{0x70, 0x70, 0x70}, {0x70, 0x70, 0x70}}, false, false},
    [AS_COLOUR_RELEASABLE] = {"free, releasable", {{0xb9, 0xb9, 0xb9}, {0xb9, 0xb9, 0xb9}}, false, false},
    [AS_COLOUR_WITHHELD] = {"free, withheld", {{0x7d, 0x9f, 0xc9}, {0x56, 0xb4, 0xe9}}, false, false},
    [AS_COLOUR_RETURNED] = {"free, returned", {{0xff, 0xff, 0xff}, {0xff, 0xff, 0xff}}, false, false},
    [AS_COLOUR_UNTOUCHED] = {"never touched", {{0xf6, 0xd5, 0xd3}, {0xf8, 0xe0, 0xcc}}, false, false},
    [AS_COLOUR_USED_SWAPPED] = {"swapped in use", {{0x7b, 0x3a, 0x93}, {0xcc, 0x79, 0xa7}}, false, false},
    [AS_COLOUR_FREE_SWAPPED] = {"swapped free", {{0xcd, 0xab, 0xdb}, {0xeb, 0xcc, 0xdd}}, false, false},
    [AS_COLOUR_METADATA] = {"metadata", {{0x2f, 0x62, 0xb0}, {0x00, 0x72, 0xb2}}, false, true},
    [AS_COLOUR_UNKNOWN] = {"unknown", {{0xff, 0xe1, 0x4d}, {0x00, 0x9e, 0x73}}, false, false},
    [AS_COLOUR_FREE_UNKNOWN] = {"free, residency unknown", {{0xd8, 0xd3, 0xb0}, {0xd8, 0xd3, 0xb0}}, false, false},
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
            return kind == AS_CHUNK_IN_USE ? AS_COLOUR_USED : AS_COLOUR_METADATA;
        return swapped ? AS_COLOUR_USED_SWAPPED : AS_COLOUR_UNTOUCHED;
    case AS_CHUNK_TCACHE:
    case AS_CHUNK_FASTBIN:
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
        return AS_COLOUR_UNKNOWN;
    }
}

enum as_colour as_colour_of_page(const struct as_page_record *page)
{
    switch ((enum as_page_state)page->state) {
    case AS_PAGE_USED:
        return AS_COLOUR_USED;
    case AS_PAGE_PINNED:
        return AS_COLOUR_PINNED;
    case AS_PAGE_CACHED:
        return AS_COLOUR_CACHED;
    case AS_PAGE_STRANDED:
        return AS_COLOUR_STRANDED;
    case AS_PAGE_RELEASABLE:
        return AS_COLOUR_RELEASABLE;
    case AS_PAGE_WITHHELD:
        return AS_COLOUR_WITHHELD;
    case AS_PAGE_RETURNED:
        return AS_COLOUR_RETURNED;
    case AS_PAGE_UNTOUCHED:
        return AS_COLOUR_UNTOUCHED;
    case AS_PAGE_SWAPPED:
        return page->in_use || page->metadata ? AS_COLOUR_USED_SWAPPED : AS_COLOUR_FREE_SWAPPED;
    case AS_PAGE_UNKNOWN:
        break;
    }
    // Where only residency is unknown, what lies on the page is still worth showing.
    if (!(page->residency & AS_RES_UNKNOWN) || page->unknown)
        return AS_COLOUR_UNKNOWN;
    if (page->in_use || page->metadata)
        return AS_COLOUR_USED;
    return page->tcache || page->fastbin ? AS_COLOUR_CACHED : AS_COLOUR_FREE_UNKNOWN;
}
