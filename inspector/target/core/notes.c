// SPDX-License-Identifier: MIT
// The notes of a core file: threads with their registers, names, mapped files, page size.
#include "target/core/core.h"

#include <elf.h>
#include <string.h>

// Against files made to take long: no real core comes near (a thread has about ten notes).
enum { MAX_NOTES = 1 << 22, MAX_FILE_NOTE = 256 << 20 };

enum { NOTE_ARM_TLS = 0x401 };

// struct elf_prstatus and elf_prpsinfo, the same offsets on x86-64 and aarch64 but for the registers' names.
enum {
    PRSTATUS_PID = 32,
    PRSTATUS_REGS = 112,
    PRPSINFO_PID = 24,
    PRPSINFO_FNAME = 40,
    PRPSINFO_FNAME_BYTES = 16,
    PRPSINFO_ARGS = 56,
    PRPSINFO_ARGS_BYTES = 80,
    PRPSINFO_BYTES = 136
};
// Which of pr_reg's 8-byte words: user_regs_struct of x86-64, user_pt_regs of aarch64.
enum { X86_RIP = 16, X86_RSP = 19, X86_FS_BASE = 21, X86_WORDS = 27 };
enum { ARM_SP = 31, ARM_PC = 32, ARM_WORDS = 34 };

struct note {
    uint32_t type;
    uint64_t offset; // of the description, in the file
    uint64_t size;   // of the description
    char owner[8];
};

static bool read_thread(struct as_core *c, const struct note *note, struct as_error *err)
{
    bool arm = c->base.arch == AS_ARCH_AARCH64;
    uint64_t regs[ARM_WORDS];
    size_t words = arm ? ARM_WORDS : X86_WORDS;
    int32_t pid;
    if (note->size < PRSTATUS_REGS + words * sizeof regs[0] ||
        as_core_pread(c, note->offset + PRSTATUS_PID, &pid, sizeof pid) != sizeof pid ||
        as_core_pread(c, note->offset + PRSTATUS_REGS, regs, words * sizeof regs[0]) != words * sizeof regs[0])
        return true;
    struct as_thread *thread = as_vec_add(&c->base.threads, err);
    if (!thread)
        return false;
    *thread = (struct as_thread){.tid = pid,
                                 .tp = arm ? AS_UNKNOWN : regs[X86_FS_BASE],
                                 .sp = regs[arm ? ARM_SP : X86_RSP],
                                 .pc = regs[arm ? ARM_PC : X86_RIP]};
    // The rest of x86-64's words are segments, flags and the like: small numbers, which are nobody's address.
    memcpy(thread->general, regs, (arm ? ARM_SP : X86_RIP) * sizeof regs[0]);
    return true;
}

static void read_process(struct as_core *c, const struct note *note)
{
    char info[PRPSINFO_BYTES];
    if (note->size < sizeof info || as_core_pread(c, note->offset, info, sizeof info) != sizeof info)
        return;
    int32_t pid;
    memcpy(&pid, info + PRPSINFO_PID, sizeof pid);
    c->base.pid = pid;
    memcpy(c->base.comm, info + PRPSINFO_FNAME, PRPSINFO_FNAME_BYTES - 1);
    size_t length = strnlen(info + PRPSINFO_ARGS, PRPSINFO_ARGS_BYTES);
    while (length > 0 && info[PRPSINFO_ARGS + length - 1] == ' ') // the kernel ends the last argument with one
        --length;
    c->base.cmdline = as_strings_add(&c->base.strings, info + PRPSINFO_ARGS, length);
}

static void read_auxv(struct as_core *c, const struct note *note)
{
    Elf64_auxv_t aux[64];
    size_t bytes = note->size < sizeof aux ? (size_t)note->size : sizeof aux;
    size_t count = as_core_pread(c, note->offset, aux, bytes) / sizeof aux[0];
    for (size_t i = 0; i < count && aux[i].a_type != AT_NULL; ++i) {
        uint64_t value = aux[i].a_un.a_val;
        // A page size that no kernel has is not believed.
        if (aux[i].a_type == AT_PAGESZ && value >= 4096 && value <= 65536 && (value & (value - 1)) == 0)
            c->base.page_size = (uint32_t)value;
        else if (aux[i].a_type == AT_SYSINFO_EHDR)
            c->vdso = value;
        else if (aux[i].a_type == AT_PHDR)
            c->program_headers = value;
    }
}

// NT_FILE: how many, the unit of offsets, that many (start, end, offset), then as many names that end with NUL.
static bool read_files(struct as_core *c, const struct note *note, struct as_error *err)
{
    uint64_t head[2];
    if (note->size < sizeof head || note->size > MAX_FILE_NOTE)
        return true;
    c->scratch.count = 0;
    if (!as_vec_reserve(&c->scratch, (size_t)note->size, err))
        return false;
    if (as_core_pread(c, note->offset, c->scratch.items, (size_t)note->size) != note->size)
        return true;
    memcpy(head, c->scratch.items, sizeof head);
    uint64_t entry[3];
    if (head[0] > (note->size - sizeof head) / sizeof entry)
        return true;
    const char *at = c->scratch.items + sizeof head;
    const char *name = at + head[0] * sizeof entry;
    const char *end = c->scratch.items + note->size;
    const char *last_name = "";
    uint32_t last_path = 0;
    for (uint64_t i = 0; i < head[0]; ++i, at += sizeof entry) {
        memcpy(entry, at, sizeof entry);
        size_t length = strnlen(name, (size_t)(end - name));
        if (name + length == end)
            return true;
        uint64_t floor = c->files.count ? c->files.items[c->files.count - 1].end : 0;
        uint64_t offset;
        if (entry[0] >= floor && entry[1] > entry[0] && !__builtin_mul_overflow(entry[2], head[1], &offset)) {
            struct as_core_file *file = as_vec_add(&c->files, err);
            if (!file)
                return false;
            if (strcmp(name, last_name) != 0)
                last_path = as_strings_add(&c->base.strings, name, length);
            last_name = name;
            *file = (struct as_core_file){.start = entry[0], .end = entry[1], .offset = offset, .path = last_path};
        }
        name += length + 1;
    }
    return true;
}

static bool take_note(struct as_core *c, const struct note *note, struct as_error *err)
{
    if (c->notes < sizeof c->first_notes / sizeof c->first_notes[0])
        c->first_notes[c->notes] = note->type;
    ++c->notes;
    if (strcmp(note->owner, "GDB") == 0)
        c->by_gdb = true;
    if (strcmp(note->owner, "LINUX") == 0 && note->type == NOTE_ARM_TLS && c->base.arch == AS_ARCH_AARCH64 &&
        c->base.threads.count > 0) {
        // Belongs to the thread whose NT_PRSTATUS came last.
        uint64_t tp;
        if (note->size >= sizeof tp && as_core_pread(c, note->offset, &tp, sizeof tp) == sizeof tp)
            c->base.threads.items[c->base.threads.count - 1].tp = tp;
    }
    if (strcmp(note->owner, "CORE") != 0)
        return true;
    switch (note->type) {
    case NT_PRSTATUS:
        return read_thread(c, note, err);
    case NT_PRPSINFO:
        read_process(c, note);
        return true;
    case NT_AUXV:
        read_auxv(c, note);
        return true;
    case NT_FILE:
        return read_files(c, note, err);
    default:
        return true;
    }
}

bool as_core_read_notes(struct as_core *c, uint64_t offset, uint64_t size, struct as_error *err)
{
    uint64_t end = size > UINT64_MAX - offset ? UINT64_MAX : offset + size;
    if (end > c->file_size)
        end = c->file_size;
    while (offset < end && c->notes < MAX_NOTES) {
        Elf64_Nhdr header;
        if (end - offset < sizeof header || as_core_pread(c, offset, &header, sizeof header) != sizeof header)
            return true;
        offset += sizeof header;
        // Names and descriptions are padded to 4 bytes, in 64-bit cores too.
        uint64_t name_size = ((uint64_t)header.n_namesz + 3) & ~UINT64_C(3);
        uint64_t size_padded = ((uint64_t)header.n_descsz + 3) & ~UINT64_C(3);
        if (name_size > end - offset || size_padded > end - offset - name_size)
            return true;
        struct note note = {.type = header.n_type, .offset = offset + name_size, .size = header.n_descsz};
        size_t name_length = header.n_namesz < sizeof note.owner ? header.n_namesz : sizeof note.owner - 1;
        if (as_core_pread(c, offset, note.owner, name_length) != name_length)
            return true;
        if (!take_note(c, &note, err))
            return false;
        offset = note.offset + size_padded;
    }
    return true;
}
