// SPDX-License-Identifier: MIT
#include "ledger/builder.h"

#include <errno.h>
#include <unistd.h>

bool as_chunk_flush(struct as_chunk_writer *w, struct as_error *err)
{
    const char *bytes = (const char *)w->buffer;
    size_t left = w->pending * sizeof *w->buffer;
    while (left > 0) {
        ssize_t n = pwrite(w->fd, bytes, left, (off_t)w->offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return as_fail_errno(err, AS_IO, "writing chunk records to the dump");
        bytes += n;
        left -= (size_t)n;
        w->offset += (uint64_t)n;
    }
    w->pending = 0;
    return true;
}

bool as_chunk_write(struct as_chunk_writer *w, struct as_chunk chunk, struct as_error *err)
{
    const uint64_t most = (UINT64_C(1) << AS_CHUNK_SIZE_BITS) - 1;
    uint64_t units = as_chunk_size(chunk) / AS_UNIT;
    uint32_t class = (uint32_t)as_chunk_class_of(chunk) << AS_CHUNK_CLASS_SHIFT;
    do {
        uint64_t part = units > most ? most : units;
        units -= part;
        w->buffer[w->pending++] = class | (units ? AS_CHUNK_MORE : 0) | (uint32_t)part;
        w->count++;
        if (w->pending == AS_CHUNK_BUFFER && !as_chunk_flush(w, err))
            return false;
    } while (units > 0);
    return true;
}
