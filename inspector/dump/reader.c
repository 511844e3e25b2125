// SPDX-License-Identifier: MIT
// Reads a dump. Records are copied before they are checked: a mapped file could change afterwards, or shrink under our feet.
// Only the chunks stay mapped; the reader (model/chunks.h) accepts any value.
#include "dump/dump.h"
#include "dump/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SECTIONS = 1024 };

// Our sections as found in the file; offset 0: not there.
struct found {
    int fd;
    const char *name; // of the file, for errors
    struct as_dump_header header;
    struct as_dump_section sections[AS_SECTION_COUNT];
};

static bool read_exactly(const struct found *d, void *out, uint64_t size, uint64_t offset, struct as_error *err)
{
    char *to = out;
    while (size) {
        ssize_t n = pread(d->fd, to, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return as_fail_errno(err, AS_BAD_INPUT, "cannot read '%s'", d->name);
        if (n == 0)
            return as_fail(err, AS_BAD_INPUT, "'%s' was truncated while it was read", d->name);
        to += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

static bool check_header(struct found *d, uint64_t size, struct as_error *err)
{
    struct as_dump_header *h = &d->header;
    if (size < sizeof *h)
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a dump of arenascope: it is only %" PRIu64 " bytes long",
                       d->name, size);
    if (!read_exactly(d, h, sizeof *h, 0, err))
        return false;
    if (memcmp(h->magic, "ARENASC\r", sizeof h->magic) == 0)
        return as_fail(err, AS_BAD_INPUT, "'%s' was damaged by a transfer in text mode: copy it again in binary mode",
                       d->name);
    if (memcmp(h->magic, AS_DUMP_MAGIC, sizeof h->magic) != 0)
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a dump of arenascope: it does not begin with ARENASC", d->name);
    if (h->major > AS_DUMP_MAJOR)
        return as_fail(err, AS_BAD_INPUT,
                       "'%s' was made by a newer arenascope (format %d.%d); this one reads %d.x: update arenascope",
                       d->name, h->major, h->minor, AS_DUMP_MAJOR);
    if (h->major != AS_DUMP_MAJOR)
        return as_fail(err, AS_BAD_INPUT, "'%s' has format %d.%d, which does not exist; this arenascope reads %d.x",
                       d->name, h->major, h->minor, AS_DUMP_MAJOR);
    if (size < h->file_size)
        return as_fail(err, AS_BAD_INPUT, "'%s' is truncated: %" PRIu64 " of its %" PRIu64 " bytes are missing",
                       d->name, h->file_size - size, h->file_size);
    if (size > h->file_size || h->header_size != sizeof *h || h->section_size != sizeof d->sections[0] ||
        h->section_count > MAX_SECTIONS || h->table_offset > size ||
        h->section_count * (uint64_t)h->section_size > size - h->table_offset)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its header does not fit the file", d->name);
    return true;
}

static const struct as_section_kind *kind_of(const struct as_dump_section *s)
{
    for (int id = 0; id < AS_SECTION_COUNT; id++) {
        if (strncmp(s->name, as_section_kinds[id].name, sizeof s->name) == 0)
            return &as_section_kinds[id];
    }
    return NULL;
}

// A record may end behind any field that it has had since its first format (parts are of words), or behind more fields than we know.
static bool is_record_size(const struct as_section_kind *kind, uint32_t size)
{
    bool ends_a_field = size >= kind->record_size;
    const struct as_fields *fields = &as_section_fields[kind - as_section_kinds];
    for (uint16_t i = 0; i < fields->count; i++)
        ends_a_field = ends_a_field || (size > fields->items[i].offset && size <= as_field_end(&fields->items[i]) &&
                                        (as_field_end(&fields->items[i]) - size) % sizeof(uint64_t) == 0);
    return size >= kind->first_size && ends_a_field && (fields->items || size == kind->record_size);
}

static bool check_section(const struct found *d, const struct as_section_kind *kind, const struct as_dump_section *s,
                          struct as_error *err)
{
    uint64_t bytes;
    const char *what = NULL;
    if (d->sections[kind - as_section_kinds].offset)
        what = "is there twice";
    else if (!is_record_size(kind, s->record_size))
        what = "has records of a size that no version has";
    else if (kind->count == AS_NO_COUNT && s->count != 1)
        what = "does not have one record";
    else if (s->offset < sizeof d->header || s->offset % AS_SECTION_ALIGN != 0)
        what = "is not aligned";
    else if (__builtin_mul_overflow(s->count, s->record_size, &bytes) || s->offset > d->header.file_size ||
             bytes > d->header.file_size - s->offset)
        what = "does not fit the file";
    return !what || as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its section \"%s\" %s", d->name, kind->name, what);
}

// A file of an older minor version has no section that is newer than the file.
static bool may_be_missing(const struct found *d, enum as_section_id id)
{
    int minor = d->header.minor;
    return id == AS_SECTION_chunks || (minor < AS_DUMP_MINOR && as_section_kinds[id].count != AS_NO_COUNT);
}

static bool read_table(struct found *d, struct as_error *err)
{
    for (uint32_t i = 0; i < d->header.section_count; i++) {
        struct as_dump_section s;
        if (!read_exactly(d, &s, sizeof s, d->header.table_offset + i * sizeof s, err))
            return false;
        const struct as_section_kind *kind = kind_of(&s);
        if (!kind)
            continue; // a later minor version's
        if (!check_section(d, kind, &s, err))
            return false;
        d->sections[kind - as_section_kinds] = s;
    }
    for (int id = 0; id < AS_SECTION_COUNT; id++) {
        if (!d->sections[id].offset && !may_be_missing(d, id))
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: it has no section \"%s\"", d->name,
                           as_section_kinds[id].name);
    }
    return true;
}

static void set_section(struct as_view *view, int id, const void *records, uint64_t count)
{
    const struct as_section_kind *kind = &as_section_kinds[id];
    memcpy((char *)view + kind->pointer, &records, sizeof records);
    if (kind->count != AS_NO_COUNT)
        memcpy((char *)view + kind->count, &count, sizeof count);
}

// Bytes that a section takes in memory: there its records have our size.
static bool section_bytes(enum as_section_id id, const struct as_dump_section *s, uint64_t *bytes)
{
    return !__builtin_mul_overflow(s->count, as_section_kinds[id].record_size, bytes) &&
           !__builtin_add_overflow(*bytes, AS_SECTION_ALIGN - 1, bytes);
}

// The fields that a record of an older file does not have, as unknown.
static void forget_missing(const struct as_section_kind *kind, char *record, uint32_t size)
{
    const struct as_fields *fields = &as_section_fields[kind - as_section_kinds];
    for (uint16_t i = 0; i < fields->count; i++) {
        const struct as_field *field = &fields->items[i];
        bool ones = field->rule == AS_FIELD_NUMBER || field->rule == AS_FIELD_INDEX_OR_NONE;
        uint32_t from = size > field->offset ? size : field->offset;
        if (from < as_field_end(field))
            memset(record + from, ones ? 0xff : 0, as_field_end(field) - from);
    }
}

static bool read_records(const struct found *d, enum as_section_id id, char *to, struct as_error *err)
{
    const struct as_dump_section *s = &d->sections[id];
    const struct as_section_kind *kind = &as_section_kinds[id];
    if (s->record_size == kind->record_size)
        return read_exactly(d, to, s->count * s->record_size, s->offset, err);
    uint32_t size = s->record_size < kind->record_size ? s->record_size : kind->record_size;
    for (uint64_t i = 0; i < s->count; i++, to += kind->record_size) {
        if (!read_exactly(d, to, size, s->offset + i * s->record_size, err))
            return false;
        forget_missing(kind, to, size);
    }
    return true;
}

static bool copy_records(struct as_dump_file *f, const struct found *d, struct as_error *err)
{
    uint64_t size = 0, bytes;
    for (enum as_section_id id = 0; id < AS_SECTION_chunks; id++)
        if (!section_bytes(id, &d->sections[id], &bytes) || __builtin_add_overflow(size, bytes, &size))
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its sections are larger than memory", d->name);
    void *records = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (records == MAP_FAILED)
        return as_fail_errno(err, AS_NO_MEMORY, "no memory for the %" PRIu64 " bytes of records in '%s'", size,
                             d->name);
    f->records = records;
    f->records_size = size;
    char *to = records;
    for (enum as_section_id id = 0; id < AS_SECTION_chunks; id++) {
        if (!read_records(d, id, to, err))
            return false;
        set_section(&f->view, id, to, d->sections[id].count);
        section_bytes(id, &d->sections[id], &bytes);
        to += bytes / AS_SECTION_ALIGN * AS_SECTION_ALIGN;
    }
    return true;
}

static bool map_chunks(struct as_dump_file *f, const struct found *d, struct as_error *err)
{
    const struct as_dump_section *s = &d->sections[AS_SECTION_chunks];
    if (!s->offset)
        return true;
    uint64_t lead = s->offset % (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t size = lead + s->count * s->record_size;
    if (size == 0)
        size = 1; // no chunks at all: still told apart from a dump made without --chunks
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, d->fd, (off_t)(s->offset - lead));
    if (map == MAP_FAILED)
        return as_fail_errno(err, AS_NO_MEMORY, "cannot map the chunk records of '%s'", d->name);
    f->chunk_map = map;
    f->chunk_map_size = size;
    set_section(&f->view, AS_SECTION_chunks, (char *)map + lead, s->count);
    return true;
}

bool as_dump_open_fd(struct as_dump_file *f, int fd, const char *name, struct as_error *err)
{
    *f = (struct as_dump_file){0};
    struct found d = {.fd = fd, .name = name};
    struct stat st;
    if (fstat(fd, &st) != 0)
        return as_fail_errno(err, AS_BAD_INPUT, "cannot read '%s'", name);
    if (!S_ISREG(st.st_mode))
        return as_fail(err, AS_BAD_INPUT, "'%s' is not a regular file", name);
    if (check_header(&d, (uint64_t)st.st_size, err) && read_table(&d, err) && copy_records(f, &d, err) &&
        map_chunks(f, &d, err) && as_dump_check(&f->view, name, err)) {
        return true;
    }
    as_dump_file_close(f);
    return false;
}

bool as_dump_open(struct as_dump_file *f, const char *path, struct as_error *err)
{
    *f = (struct as_dump_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not make us wait
    if (fd < 0)
        return as_fail_errno(err, AS_NO_TARGET, "cannot open '%s'", path);
    bool ok = as_dump_open_fd(f, fd, path, err);
    close(fd);
    return ok;
}

void as_dump_file_close(struct as_dump_file *f)
{
    if (f->records)
        munmap(f->records, f->records_size);
    if (f->chunk_map)
        munmap(f->chunk_map, f->chunk_map_size);
    *f = (struct as_dump_file){0};
}
