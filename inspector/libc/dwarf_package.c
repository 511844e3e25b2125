// SPDX-License-Identifier: MIT
// A package (.dwp) has the .dwo files of a whole program. Its index says which parts of each section a unit has. libdw knows packages only
// from 0.192 on: so each .dwo file that is in the package gets back an ELF header of its own. All these headers are in one copy in memory,
// before the sections that they share.
#include "config.h"

#include "libc/debug_info.h"

#ifdef HAVE_LIBDW

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROWS = 1 << 20,
    MOST_FILES = 1 << 16,
    MOST_COLUMNS = 8,
    ALIGNMENT = 16,
    INFO = 1, // kinds of sections, which an index names by numbers
    TYPES = 2,
    ABBREV = 3,
    OFFSETS = 6, // of strings
    KINDS = 7,   // that are of interest
    SECTIONS = 6,
    NAMES_BYTES = 128,
};

static const char *const names[] = {
    [INFO] = ".debug_info.dwo",
    [TYPES] = ".debug_types.dwo",
    [ABBREV] = ".debug_abbrev.dwo",
    [OFFSETS] = ".debug_str_offsets.dwo",
};

struct package_part {
    uint64_t offset, size;
};

// What a unit has of each section.
struct row {
    struct package_part parts[KINDS];
    uint32_t group; // of rows with the same abbreviations and strings: they are of one .dwo file
};

// What libdw gets to see of each .dwo file.
struct headers {
    Elf64_Ehdr elf;
    Elf64_Shdr sections[SECTIONS + 2]; // and none, and the names
    char names[NAMES_BYTES];
};
_Static_assert(sizeof(struct headers) % ALIGNMENT == 0, "each begins where the ELF header of the next may");

// A section of the file, or a copy if it is packed there.
struct package_section {
    uint64_t offset, size; // in the file; bytes
    as_byte_vec unpacked;
};

struct package {
    const struct as_elf *elf;
    as_byte_vec *out;
    AS_VEC(struct row) rows;
    uint32_t groups;
    struct package_section sections[KINDS], strings;
    uint64_t most, unpacked; // bytes: of the image, and of all copies; those that there are
    char *why;
    size_t why_size;
};

static bool left_out(struct package *p, const char *why)
{
    snprintf(p->why, p->why_size, "%s", why);
    return false;
}

static bool damaged(struct package *p)
{
    return left_out(p, "its index is damaged");
}

static bool unpack(struct package *p, struct as_debug_section *found, struct package_section *section)
{
    if (!as_debug_section_measure(p->elf, found, p->why, p->why_size))
        return false;
    section->size = found->size;
    if (found->packing == 0)
        return true;
    uint64_t larger = found->size > found->header.sh_size ? found->size : found->header.sh_size;
    if (larger > p->most - p->unpacked)
        return left_out(p, "it has more debug information than is read");
    p->unpacked += larger;
    return as_debug_section_unpack(&section->unpacked, p->elf, found, p->why, p->why_size);
}

static bool find_section(struct package *p, const char *name, struct package_section *section)
{
    struct as_debug_section found = {0};
    *section = (struct package_section){0};
    if (!as_debug_section_next(p->elf, name, &found) || found.header.sh_type == SHT_NOBITS)
        return true; // there is none
    // Sums of sizes must not wrap: all copies go into one room.
    if (found.header.sh_offset > p->elf->size || found.header.sh_size > p->elf->size - found.header.sh_offset)
        return left_out(p, "it is truncated");
    section->offset = found.header.sh_offset;
    return unpack(p, &found, section);
}

static bool read_section(const struct package *p, const struct package_section *s, uint64_t offset, void *to,
                         uint64_t size)
{
    if (offset > s->size || size > s->size - offset)
        return false;
    if (s->unpacked.count == 0)
        return as_elf_read_offset(p->elf, s->offset + offset, to, size);
    memcpy(to, s->unpacked.items + offset, size);
    return true;
}

// An index: so many columns, rows (units) and slots of a hash table, which is not needed; numbers of sections; for each row and
// section an offset, then for each a size.
struct package_index {
    struct package_section section;
    uint64_t at; // in the section
    uint32_t version, columns, rows, slots;
    uint32_t kinds[MOST_COLUMNS];
};

static bool read_index(struct package *p, const char *name, struct package_index *x)
{
    uint32_t header[4];
    if (!find_section(p, name, &x->section))
        return false;
    if (x->section.size < sizeof header)
        return true; // there is none
    if (!read_section(p, &x->section, 0, header, sizeof header))
        return damaged(p);
    x->version = header[0];
    x->columns = header[1];
    x->rows = header[2];
    x->slots = header[3];
    uint64_t kinds = sizeof header + (uint64_t)x->slots * (sizeof(uint64_t) + sizeof(uint32_t));
    uint64_t bytes = kinds + ((uint64_t)x->rows * 2 + 1) * x->columns * sizeof(uint32_t);
    if ((x->version != 2 && x->version != 5) || x->columns > MOST_COLUMNS || x->rows > MOST_ROWS ||
        bytes > x->section.size)
        return damaged(p);
    x->at = kinds;
    return read_section(p, &x->section, x->at, x->kinds, x->columns * sizeof *x->kinds) || damaged(p);
}

static bool is_inside(const struct package *p, unsigned kind, const struct package_part *part)
{
    uint64_t size = p->sections[kind].size;
    return part->offset <= size && part->size <= size - part->offset;
}

static bool read_row(struct package *p, const struct package_index *x, uint64_t i, struct row *row)
{
    uint64_t bytes = x->columns * sizeof(uint32_t);
    uint32_t offsets[MOST_COLUMNS], sizes[MOST_COLUMNS];
    if (!read_section(p, &x->section, x->at + (1 + i) * bytes, offsets, bytes) ||
        !read_section(p, &x->section, x->at + (1 + x->rows + i) * bytes, sizes, bytes))
        return damaged(p);
    *row = (struct row){0};
    for (uint32_t k = 0; k < x->columns; k++) {
        uint32_t kind = x->kinds[k];
        bool known = kind < KINDS && names[kind] && (kind != TYPES || x->version == 2);
        struct package_part part = {offsets[k], sizes[k]};
        if (known && !is_inside(p, kind, &part))
            return damaged(p);
        if (known)
            row->parts[kind] = part;
    }
    return true;
}

static bool read_rows(struct package *p, const char *name)
{
    struct package_index x = {0};
    bool ok = read_index(p, name, &x) && as_vec_reserve(&p->rows, x.rows, NULL);
    for (uint64_t i = 0; ok && i < x.rows; i++) {
        ok = read_row(p, &x, i, &p->rows.items[p->rows.count]);
        p->rows.count += ok;
    }
    as_vec_free(&x.section.unpacked);
    return ok;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_group(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = compare(x->parts[ABBREV].offset, y->parts[ABBREV].offset);
    order = order ? order : compare(x->parts[OFFSETS].offset, y->parts[OFFSETS].offset);
    order = order ? order : compare(x->parts[INFO].offset, y->parts[INFO].offset);
    return order ? order : compare(x->parts[TYPES].offset, y->parts[TYPES].offset);
}

// Rows of one .dwo file follow each other then.
static bool group(struct package *p, uint64_t *bytes)
{
    *bytes = p->strings.size + p->sections[ABBREV].size + p->sections[OFFSETS].size;
    if (p->rows.count > 0)
        qsort(p->rows.items, p->rows.count, sizeof *p->rows.items, by_group);
    for (size_t i = 0; i < p->rows.count; i++) {
        struct row *row = &p->rows.items[i];
        const struct row *last = i > 0 ? row - 1 : NULL;
        bool same = last && last->parts[ABBREV].offset == row->parts[ABBREV].offset &&
                    last->parts[OFFSETS].offset == row->parts[OFFSETS].offset;
        p->groups += !same;
        row->group = p->groups - 1;
        *bytes += row->parts[INFO].size + row->parts[TYPES].size;
    }
    *bytes += (uint64_t)p->groups * sizeof(struct headers);
    return (p->groups <= MOST_FILES && *bytes <= p->most) || left_out(p, "it has more debug information than is read");
}

static uint64_t append_section(struct package *p, const struct package_section *from, uint64_t offset, uint64_t size)
{
    uint64_t at = p->out->count;
    if (size > p->out->capacity - at)
        return UINT64_MAX;
    p->out->count += size;
    return read_section(p, from, offset, p->out->items + at, size) ? at : UINT64_MAX;
}

// Where a section is in the copy.
static void add_section(struct headers *h, const char *name, uint64_t at, uint64_t size)
{
    if (size == 0)
        return;
    unsigned count = h->elf.e_shnum++;
    size_t length = strlen(name) + 1, used = h->sections[0].sh_size; // of the names: so far
    memcpy(h->names + used, name, length);
    h->sections[0].sh_size += length;
    h->sections[count] = (Elf64_Shdr){
        .sh_name = (Elf64_Word)used, .sh_type = SHT_PROGBITS, .sh_offset = at, .sh_size = size, .sh_addralign = 1};
}

static void finish_headers(const struct package *p, struct headers *h)
{
    uint64_t size = h->sections[0].sh_size;
    h->elf.e_shstrndx = h->elf.e_shnum++;
    h->sections[0].sh_size = 0;
    h->sections[h->elf.e_shstrndx] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct headers, names), .sh_size = size, .sh_addralign = 1};
    memcpy(h->elf.e_ident,
           (const uint8_t[EI_NIDENT]){ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
           EI_NIDENT);
    h->elf.e_type = ET_EXEC;
    h->elf.e_machine = p->elf->machine;
    h->elf.e_version = EV_CURRENT;
    h->elf.e_shoff = offsetof(struct headers, sections);
    h->elf.e_ehsize = sizeof h->elf;
    h->elf.e_shentsize = sizeof *h->sections;
}

// The units of one .dwo file, from a row on. Returns the first row of the next one.
static size_t append_group(struct package *p, size_t first, const uint64_t shared[KINDS], uint64_t strings)
{
    uint64_t start = p->rows.items[first].group * (uint64_t)sizeof(struct headers);
    struct headers h = {.elf.e_shnum = 1, .sections[0].sh_size = 1};
    size_t i = first;
    for (unsigned kind = INFO; kind <= TYPES; kind++) {
        uint64_t at = p->out->count;
        for (i = first; i < p->rows.count && p->rows.items[i].group == p->rows.items[first].group; i++) {
            struct package_part part = p->rows.items[i].parts[kind];
            if (append_section(p, &p->sections[kind], part.offset, part.size) == UINT64_MAX)
                return 0;
        }
        add_section(&h, names[kind], at - start, p->out->count - at);
    }
    const struct row *row = &p->rows.items[first];
    for (unsigned kind = ABBREV; kind < KINDS; kind++)
        if (names[kind])
            add_section(&h, names[kind], shared[kind] + row->parts[kind].offset - start, row->parts[kind].size);
    add_section(&h, ".debug_str.dwo", strings - start, p->strings.size);
    finish_headers(p, &h);
    memcpy(p->out->items + start, &h, sizeof h);
    return i;
}

static bool copy(struct package *p, uint64_t bytes)
{
    uint64_t shared[KINDS] = {0};
    if (!as_vec_reserve(p->out, bytes, NULL))
        return left_out(p, "there is no memory for it");
    p->out->count = p->groups * sizeof(struct headers);
    uint64_t strings = append_section(p, &p->strings, 0, p->strings.size);
    bool ok = strings != UINT64_MAX;
    for (unsigned kind = ABBREV; ok && kind < KINDS; kind++)
        if (names[kind])
            ok = (shared[kind] = append_section(p, &p->sections[kind], 0, p->sections[kind].size)) != UINT64_MAX;
    for (size_t i = 0; ok && i < p->rows.count;)
        ok = (i = append_group(p, i, shared, strings)) != 0;
    return ok || left_out(p, "it is truncated");
}

static bool make(struct package *p)
{
    uint64_t bytes;
    for (unsigned kind = INFO; kind < KINDS; kind++)
        if (names[kind] && !find_section(p, names[kind], &p->sections[kind]))
            return false;
    if (!find_section(p, ".debug_str.dwo", &p->strings) || !read_rows(p, ".debug_cu_index"))
        return false;
    if (p->rows.count == 0)
        return left_out(p, "it has no index");
    return read_rows(p, ".debug_tu_index") && group(p, &bytes) && copy(p, bytes);
}

bool as_dwarf_package_make(as_byte_vec *out, const struct as_elf *elf, uint64_t most, struct as_debug_files *files,
                           char *why, size_t why_size)
{
    struct package p = {.elf = elf, .out = out, .most = most, .why = why, .why_size = why_size};
    why[0] = '\0';
    bool ok = make(&p);
    as_vec_free(&p.rows);
    for (unsigned kind = INFO; kind < KINDS; kind++)
        as_vec_free(&p.sections[kind].unpacked);
    as_vec_free(&p.strings.unpacked);
    *files = (struct as_debug_files){p.groups, sizeof(struct headers), p.unpacked + out->count};
    return ok || (why[0] == '\0' && left_out(&p, "there is no memory for it"));
}

#endif
