// SPDX-License-Identifier: MIT
#include "png/pictures.h"

#include <inttypes.h>

void as_picture_size(uint64_t bytes, char *out, size_t size)
{
    const char *unit = bytes >= 1ull << 30 ? "GiB" : bytes >= 1ull << 20 ? "MiB" : "KiB";
    double divisor = bytes >= 1ull << 30 ? 1ull << 30 : bytes >= 1ull << 20 ? 1ull << 20 : 1024;
    snprintf(out, size, "%.1f %s", (double)bytes / divisor, unit);
}

bool as_picture_title(struct as_image *image, const struct as_view *v, const char *title)
{
    char text[160];
    const struct as_meta_record *m = v->meta;
    snprintf(text, sizeof text, "%s of %.*s (pid %" PRIu32 ")", title, (int)sizeof m->comm, m->comm, m->pid);
    return as_image_gap(image, 8) && as_image_line(image, AS_RIGHT, 2, text) &&
           (m->flags & AS_META_RESIDENCY_KNOWN ||
            as_image_line(image, AS_RIGHT, 1,
                          "For some pages it is unknown whether they are resident: see the dump's warnings."));
}
