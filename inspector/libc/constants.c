// SPDX-License-Identifier: MIT
#include "libc/constants.h"

#include <string.h>

void as_constants_begin(struct as_constants *c, struct as_modules *modules)
{
    c->modules = modules;
    c->count = c->next = 0;
}

void as_constants_end(struct as_constants *c)
{
    for (unsigned i = 0; i < c->count; i++)
        as_module_close(&c->files[i]);
    c->count = 0;
}

// Notes a file that is gone, or was exchanged or cut short, since the modules were found. It is not tried again.
static void note_missing(struct as_constants *c, struct as_module *module)
{
    module->has_file = false;
    if (c->modules->missing++ == 0)
        c->modules->first_missing = module->first_mapping;
}

// The module with its file opened; NULL: it cannot be.
static const struct as_module *open_file(struct as_constants *c, struct as_module *module)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->files[i].first_mapping == module->first_mapping)
            return &c->files[i];
    struct as_module *file = &c->files[c->next];
    if (c->count < AS_CONSTANT_FILES)
        c->count++;
    else
        as_module_close(file);
    c->next = (c->next + 1) % AS_CONSTANT_FILES;
    *file = *module;
    if (as_module_open(c->modules, file) && strcmp(file->elf.build_id, module->elf.build_id) == 0)
        return file;
    as_module_close(file);
    note_missing(c, module);
    return NULL;
}

// Reads what a module's file has from an address on.
static size_t read_file(struct as_constants *c, struct as_module *module, uint64_t address, void *buffer, size_t length)
{
    const struct as_module *file = open_file(c, module);
    const struct as_elf_load *load = file ? as_module_constant_at(c->modules, file, address, address + 1) : NULL;
    uint64_t skip = load ? address - file->base - load->vaddr : 0;
    size_t there = load && skip < load->filesz ? (size_t)(load->filesz - skip) : 0;
    size_t wanted = there < length ? there : length;
    if (wanted == 0 || as_elf_read_offset(&file->elf, load->offset + skip, buffer, wanted))
        return wanted;
    note_missing(c, module);
    return 0;
}

static size_t read_left_out(struct as_constants *c, uint64_t address, void *buffer, size_t length)
{
    size_t got = 0;
    AS_FOR_EACH_WHILE(got == 0, struct as_module, module, &c->modules->list)
        if (module->has_file && address >= module->start && address < module->end)
            got = read_file(c, module, address, buffer, length);
    return got;
}

size_t as_constants_read(struct as_constants *c, uint64_t address, void *buffer, size_t length)
{
    struct as_target *t = c->modules->target;
    size_t got = as_target_read_resident(t, address, buffer, length);
    if (got == length || t->kind != AS_TARGET_CORE)
        return got;
    return got + read_left_out(c, address + got, (uint8_t *)buffer + got, length - got);
}
