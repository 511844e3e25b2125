// SPDX-License-Identifier: MIT
// The headers of a core file, and the mappings they describe. Nothing in them is believed before it is checked.
#include "target/core/core.h"

#include <elf.h>
#include <inttypes.h>
#include <string.h>

// No process has more mappings than this (vm.max_map_count is 65530 by default; some raise it).
enum { MAX_SEGMENTS = 1 << 24 };

const char *as_core_compression(const void *head, size_t length)
{
    static const struct {
        uint8_t magic[6];
        uint8_t length;
        const char *name;
    } known[] = {
        {{0x28, 0xb5, 0x2f, 0xfd}, 4, "zstd"},
        {{0x04, 0x22, 0x4d, 0x18}, 4, "lz4"},
        {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, "xz"},
        {{0x1f, 0x8b}, 2, "gzip"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        if (length >= known[i].length && memcmp(head, known[i].magic, known[i].length) == 0)
            return known[i].name;
    }
    return NULL;
}

static bool check_header(struct as_core *c, Elf64_Ehdr *header, struct as_error *err)
{
    memset(header, 0, sizeof *header);
    size_t got = as_core_pread(c, 0, header, sizeof *header);
    const char *compression = as_core_compression(header->e_ident, got);
    if (compression)
        return as_fail(err, AS_BAD_INPUT,
                       "this file is compressed (%s): decompress it first (coredumpctl dump does), with its holes kept "
                       "if the tool can",
                       compression);
    if (got < EI_NIDENT || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return as_fail(err, AS_BAD_INPUT, "this is not a core file: it does not begin as an ELF file does");
    if (header->e_ident[EI_CLASS] == ELFCLASS32)
        return as_fail(err, AS_UNSUPPORTED, "this is a 32-bit ELF file: only 64-bit cores are supported");
    if (header->e_ident[EI_CLASS] != ELFCLASS64)
        return as_fail(err, AS_BAD_INPUT, "this is not a core file: its ELF class is %u", header->e_ident[EI_CLASS]);
    if (header->e_ident[EI_DATA] == ELFDATA2MSB)
        return as_fail(err, AS_UNSUPPORTED, "this is a big-endian ELF file: only x86-64 and aarch64 are supported");
    if (got < sizeof *header)
        return as_fail(err, AS_BAD_INPUT, "this core file is truncated within its first header");
    if (header->e_type == ET_EXEC || header->e_type == ET_DYN)
        return as_fail(err, AS_BAD_INPUT, "this is a program or a library, not a core file");
    if (header->e_type != ET_CORE)
        return as_fail(err, AS_BAD_INPUT, "this is an ELF file of type %u, not a core file", header->e_type);
    if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64)
        return as_fail(err, AS_UNSUPPORTED, "this core is of ELF machine %u: only x86-64 and aarch64 are supported",
                       header->e_machine);
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return as_fail(err, AS_BAD_INPUT, "this core file is damaged: its program headers are %u bytes long, not %zu",
                       header->e_phentsize, sizeof(Elf64_Phdr));
    c->base.arch = header->e_machine == EM_X86_64 ? AS_ARCH_X86_64 : AS_ARCH_AARCH64;
    return true;
}

// e_phnum has 16 bits; a core with more headers keeps their number in the first section header.
static bool count_headers(const struct as_core *c, const Elf64_Ehdr *header, uint64_t *count, struct as_error *err)
{
    *count = header->e_phnum;
    if (header->e_phnum == PN_XNUM) {
        Elf64_Shdr section;
        if (header->e_shoff == 0 || as_core_pread(c, header->e_shoff, &section, sizeof section) != sizeof section)
            return as_fail(err, AS_BAD_INPUT, "this core file is truncated: the number of its segments is missing");
        *count = section.sh_info;
    }
    if (*count > MAX_SEGMENTS)
        return as_fail(err, AS_BAD_INPUT, "this core file is damaged: it claims to have %" PRIu64 " segments", *count);
    if (header->e_phoff > c->file_size || c->file_size - header->e_phoff < *count * sizeof(Elf64_Phdr))
        return as_fail(err, AS_BAD_INPUT, "this core file is truncated within its headers: %" PRIu64 " bytes are left",
                       c->file_size);
    return true;
}

static bool add_segment(struct as_core *c, const Elf64_Phdr *header, struct as_error *err)
{
    uint64_t end;
    uint64_t file_end;
    if (header->p_memsz == 0)
        return true;
    if (__builtin_add_overflow(header->p_vaddr, header->p_memsz, &end) ||
        __builtin_add_overflow(header->p_offset, header->p_filesz, &file_end) || header->p_filesz > header->p_memsz)
        return as_fail(err, AS_BAD_INPUT,
                       "this core file is damaged: the sizes of the segment at %#" PRIx64 " are impossible",
                       (uint64_t)header->p_vaddr);
    uint64_t floor = c->segments.count ? c->segments.items[c->segments.count - 1].end : 0;
    if (header->p_vaddr < floor)
        return as_fail(err, AS_BAD_INPUT,
                       "this core file is damaged: the segment at %#" PRIx64 " is out of order, or overlaps",
                       (uint64_t)header->p_vaddr);
    if (!as_vec_push(&c->segments, err,
                     (struct as_segment){.start = header->p_vaddr,
                                         .end = end,
                                         .offset = header->p_offset,
                                         .size = header->p_filesz,
                                         .prot = (header->p_flags & PF_R ? AS_PROT_READ : 0u) |
                                                 (header->p_flags & PF_W ? AS_PROT_WRITE : 0u) |
                                                 (header->p_flags & PF_X ? AS_PROT_EXEC : 0u)}))
        return false;
    if (file_end > c->expected)
        c->expected = file_end;
    if (header->p_align < 4096 || header->p_offset % header->p_align)
        c->page_aligned = false;
    return true;
}

bool as_core_read_headers(struct as_core *c, struct as_error *err)
{
    Elf64_Ehdr header;
    uint64_t count;
    if (!check_header(c, &header, err) || !count_headers(c, &header, &count, err))
        return false;
    c->page_aligned = true;
    Elf64_Phdr some[64];
    for (uint64_t i = 0; i < count; ++i) {
        size_t in_block = i % 64;
        if (in_block == 0) {
            size_t block = count - i < 64 ? (size_t)(count - i) : 64;
            if (as_core_pread(c, header.e_phoff + i * sizeof some[0], some, block * sizeof some[0]) !=
                block * sizeof some[0])
                return as_fail(err, AS_BAD_INPUT, "the headers of this core file cannot be read");
        }
        const Elf64_Phdr *ph = &some[in_block];
        uint64_t end;
        if (ph->p_type == PT_LOAD && !add_segment(c, ph, err))
            return false;
        if (ph->p_type != PT_NOTE)
            continue;
        if (__builtin_add_overflow(ph->p_offset, ph->p_filesz, &end))
            return as_fail(err, AS_BAD_INPUT, "this core file is damaged: the size of its notes is impossible");
        if (end > c->expected)
            c->expected = end;
        if (!as_core_read_notes(c, ph->p_offset, ph->p_filesz, err))
            return false;
    }
    return c->segments.count > 0 || as_fail(err, AS_BAD_INPUT, "this core file holds no memory at all");
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// NT_FILE names shared memory too. A core has no devices to tell tmpfs by, so a file on a mounted tmpfs other than
// /dev/shm counts as a file here.
static enum as_mapping_kind classify_core_mapping(const struct as_core *c, const struct as_mapping *m, bool has_file)
{
    if (m->start > INT64_MAX || (c->vdso != 0 && m->start <= c->vdso && c->vdso < m->end))
        return AS_MAP_SPECIAL; // vsyscall, vdso
    if (!has_file)
        return AS_MAP_ANON;
    const char *path = as_mapping_path(&c->base, m);
    if (has_prefix(path, "/anon_hugepage"))
        return AS_MAP_ANON;
    if (has_prefix(path, "/dev/shm/") || has_prefix(path, "/memfd:") || has_prefix(path, "/SYSV") ||
        strcmp(path, "/dev/zero (deleted)") == 0)
        return AS_MAP_SHMEM;
    return AS_MAP_FILE;
}

static bool add_mapping(struct as_core *c, uint64_t start, uint64_t end, const struct as_segment *segment,
                        const struct as_core_file *file, struct as_error *err)
{
    uint32_t page_size = c->base.page_size;
    if (start % page_size || end % page_size)
        return as_fail(err, AS_BAD_INPUT,
                       "this core file is damaged: its memory at %#" PRIx64 "-%#" PRIx64
                       " is not whole pages of %u bytes",
                       start, end, page_size);
    struct as_mapping *m = as_vec_add(&c->base.mappings, err);
    if (!m)
        return false;
    *m = (struct as_mapping){.start = start,
                             .end = end,
                             // What NT_FILE alone knows of (gdb leaves a program's code out) can be read at the least.
                             .prot = segment ? segment->prot : AS_PROT_READ,
                             .prot_unknown = !segment,
                             .rss = AS_UNKNOWN,
                             .anonymous = AS_UNKNOWN,
                             .swap = AS_UNKNOWN,
                             .hugetlb = AS_UNKNOWN,
                             .kernel_page_size = page_size};
    if (file) {
        m->path = file->path;
        m->offset = file->offset + (start - file->start);
    }
    m->kind = classify_core_mapping(c, m, file != NULL);
    return true;
}

// vvar lies right below the vdso, in one or more mappings that are only readable and belong to no file.
static void mark_vvar(struct as_core *c)
{
    for (size_t i = 1; i < c->base.mappings.count; ++i) {
        if (c->base.mappings.items[i].kind != AS_MAP_SPECIAL || c->base.mappings.items[i].start > INT64_MAX)
            continue;
        for (size_t k = i; k-- > 0;) {
            struct as_mapping *below = &c->base.mappings.items[k];
            if (below->end != below[1].start || below->prot != AS_PROT_READ || below->kind != AS_MAP_ANON)
                break;
            below->kind = AS_MAP_SPECIAL;
        }
    }
}

// One sweep over both sorted lists: a piece of memory for each stretch in which neither changes.
bool as_core_make_mappings(struct as_core *c, struct as_error *err)
{
    const struct as_segment *segment = c->segments.items;
    const struct as_segment *segments_end = segment + c->segments.count;
    const struct as_core_file *file = c->files.items;
    const struct as_core_file *files_end = c->files.count > 0 ? file + c->files.count : file; // of none: NULL
    for (uint64_t at = 0;;) {
        while (segment < segments_end && segment->end <= at)
            ++segment;
        while (file < files_end && file->end <= at)
            ++file;
        bool in_segment = segment < segments_end && segment->start <= at;
        bool in_file = file < files_end && file->start <= at;
        uint64_t end = UINT64_MAX;
        if (segment < segments_end)
            end = in_segment ? segment->end : segment->start;
        if (file < files_end && (in_file ? file->end : file->start) < end)
            end = in_file ? file->end : file->start;
        if (end == UINT64_MAX)
            break;
        if ((in_segment || in_file) &&
            !add_mapping(c, at, end, in_segment ? segment : NULL, in_file ? file : NULL, err))
            return false;
        at = end;
    }
    mark_vvar(c);
    return true;
}
