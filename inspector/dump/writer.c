// SPDX-License-Identifier: MIT
// Writes a dump: the chunk records are in the file already, from AS_DUMP_DATA_START on; the other sections follow them, then
// the table, and the header comes last, so that no reader takes an unfinished file for a dump.
#include "dump/dump.h"
#include "dump/sections.h"

#include <string.h>
#include <unistd.h>

// A walker that uses plain write(2) starts where the chunks belong.
static bool seek_chunks(struct as_dump_writer *w, struct as_error *err)
{
    return lseek(w->file.fd, AS_DUMP_DATA_START, SEEK_SET) >= 0 || as_fail_errno(err, AS_IO, "cannot seek in the dump");
}

bool as_dump_begin(struct as_dump_writer *w, const char *path, struct as_error *err)
{
    return as_output_begin(&w->file, path, err) && seek_chunks(w, err);
}

bool as_dump_begin_fd(struct as_dump_writer *w, int fd, struct as_error *err)
{
    return as_output_begin_fd(&w->file, fd, err) && seek_chunks(w, err);
}

static uint64_t align_up(uint64_t offset)
{
    return (offset + AS_SECTION_ALIGN - 1) / AS_SECTION_ALIGN * AS_SECTION_ALIGN;
}

// Describes one section of the view at `offset`; the bytes that it takes are the return value.
static uint64_t describe_section(const struct as_section_kind *kind, const struct as_view *view, uint64_t offset,
                                 struct as_dump_section *section)
{
    uint64_t count = 1;
    if (kind->count != AS_NO_COUNT)
        memcpy(&count, (const char *)view + kind->count, sizeof count);
    memcpy(section->name, kind->name, sizeof section->name);
    section->offset = offset;
    section->count = count;
    section->record_size = kind->record_size;
    return count * kind->record_size;
}

bool as_dump_finish(struct as_dump_writer *w, const struct as_store *s, struct as_error *err)
{
    struct as_view view = as_store_view(s);
    struct as_dump_section table[AS_SECTION_COUNT] = {0};
    uint32_t sections = 0;
    uint64_t offset = AS_DUMP_DATA_START;

    if (s->meta.flags & AS_META_HAS_CHUNKS) {
        view.chunk_count = s->chunk_count;
        offset += describe_section(&as_section_kinds[AS_SECTION_chunks], &view, offset, &table[sections++]);
    }
    AS_FOR_ITEMS(const struct as_section_kind, kind, as_section_kinds, AS_SECTION_chunks) {
        offset = align_up(offset);
        uint64_t bytes = describe_section(kind, &view, offset, &table[sections++]);
        const void *records;
        memcpy(&records, (const char *)&view + kind->pointer, sizeof records);
        if (!as_output_write(&w->file, records, bytes, offset, err))
            return false;
        offset += bytes;
    }

    struct as_dump_header header = {
        .major = AS_DUMP_MAJOR,
        .minor = AS_DUMP_MINOR,
        .header_size = sizeof header,
        .table_offset = align_up(offset),
        .section_count = sections,
        .section_size = sizeof table[0],
    };
    memcpy(header.magic, AS_DUMP_MAGIC, sizeof header.magic);
    uint64_t table_bytes = sections * sizeof table[0];
    header.file_size = header.table_offset + table_bytes;
    return as_output_write(&w->file, table, table_bytes, header.table_offset, err) &&
           as_output_write(&w->file, &header, sizeof header, 0, err) && as_output_finish(&w->file, err);
}

void as_dump_close(struct as_dump_writer *w)
{
    as_output_close(&w->file);
}
