// SPDX-License-Identifier: MIT
#include "target/core/core.h"

#include <errno.h>
#include <unistd.h>

size_t as_core_read_file(int fd, uint64_t offset, void *buffer, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = pread(fd, (char *)buffer + done, length - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

size_t as_core_pread(const struct as_core *c, uint64_t offset, void *buffer, size_t length)
{
    bool can_be = offset <= INT64_MAX && length <= INT64_MAX - offset;
    return can_be ? as_core_read_file(c->fd, offset, buffer, length) : 0;
}

const struct as_segment *as_core_segment_at(const struct as_core *c, uint64_t address)
{
    const struct as_segment *segments = c->segments.items;
    size_t at = AS_PARTITION_POINT(0, c->segments.count, i, segments[i].end <= address);
    return at < c->segments.count && address >= segments[at].start ? &segments[at] : NULL;
}

uint64_t as_core_stored(const struct as_core *c, const struct as_segment *s)
{
    if (s->offset >= c->file_size)
        return 0;
    return c->file_size - s->offset < s->size ? c->file_size - s->offset : s->size;
}
