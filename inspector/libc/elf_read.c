// SPDX-License-Identifier: MIT
#include "libc/elf.h"

#include <string.h>
#include <unistd.h>

bool as_elf_read_offset(const struct as_elf *elf, uint64_t offset, void *buffer, size_t length)
{
    if (elf->fd < 0 || offset > elf->size || length > elf->size - offset)
        return false;
    uint8_t *to = buffer;
    while (length) {
        ssize_t got = pread(elf->fd, to, length, (off_t)offset);
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        length -= (size_t)got;
    }
    return true;
}

const struct as_elf_load *as_elf_load_at(const struct as_elf *elf, uint64_t address, uint64_t length)
{
    AS_FOR_ITEMS(const struct as_elf_load, load, elf->loads, elf->load_count) {
        if (address >= load->vaddr && address - load->vaddr <= load->memsz &&
            length <= load->memsz - (address - load->vaddr))
            return load;
    }
    return NULL;
}

bool as_elf_read(const struct as_elf *elf, uint64_t address, void *buffer, size_t length)
{
    const struct as_elf_load *load = as_elf_load_at(elf, address, length);
    if (!load)
        return false;
    if (elf->fd < 0)
        return as_target_read(elf->target, elf->base + address, buffer, length);
    uint64_t skip = address - load->vaddr;
    size_t in_file = skip >= load->filesz ? 0 : load->filesz - skip < length ? load->filesz - skip : length;
    memset((uint8_t *)buffer + in_file, 0, length - in_file);
    return in_file == 0 || as_elf_read_offset(elf, load->offset + skip, buffer, in_file);
}
