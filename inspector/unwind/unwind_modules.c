// SPDX-License-Identifier: MIT
#include "unwind/unwind_modules.h"
#include "base/align.h"
#include "base/memory.h"
#include "unwind/table.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST_MODULES = 65536 };

struct loading {
    struct as_unwind_modules *modules; // NULL: they are only counted
    const struct as_unwind_modules *before;
    const char *directory;
    size_t capacity;
    size_t count;
    char *text; // names
    size_t text_left;
    uint64_t changes;
};

static const ElfW(Phdr) * header_of(const ElfW(Phdr) * headers, size_t count, uint32_t type)
{
    for (size_t i = 0; i < count; i++)
        if (headers[i].p_type == type)
            return &headers[i];
    return NULL;
}

// The readable segment that has these addresses.
static const ElfW(Phdr) * segment_of(const ElfW(Phdr) * headers, size_t count, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type == PT_LOAD && (h->p_flags & PF_R) && address >= h->p_vaddr &&
            address - h->p_vaddr < h->p_filesz && size <= h->p_filesz - (address - h->p_vaddr))
            return h;
    }
    return NULL;
}

// From the first to the last address of code.
static bool find_text(struct as_unwind_image *image, const ElfW(Phdr) * headers, size_t count)
{
    uint64_t end = 0;
    image->text = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X) || h->p_memsz == 0)
            continue;
        image->text = h->p_vaddr < image->text ? h->p_vaddr : image->text;
        end = h->p_vaddr + h->p_memsz > end ? h->p_vaddr + h->p_memsz : end;
    }
    image->text_size = end > image->text ? end - image->text : 0;
    return image->text_size > 0;
}

// The build-id is in one of the notes.
static void read_id(struct as_unwind_image *image, uintptr_t bias, const ElfW(Phdr) * headers, size_t count)
{
    static const char owner[4] = "GNU";
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type != PT_NOTE || !segment_of(headers, count, h->p_vaddr, h->p_memsz))
            continue;
        uint64_t padding = h->p_align == 8 ? 8 : 4;
        for (uint64_t at = 0; at + sizeof(ElfW(Nhdr)) <= h->p_memsz;) {
            const uint8_t *note = (const uint8_t *)(bias + h->p_vaddr + at);
            ElfW(Nhdr) head;
            memcpy(&head, note, sizeof head);
            uint64_t contents = sizeof head + as_align_up(head.n_namesz, padding);
            uint64_t next = at + contents + as_align_up(head.n_descsz, padding);
            if (next > h->p_memsz)
                break;
            if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == sizeof owner && head.n_descsz <= sizeof image->id &&
                memcmp(note + sizeof head, owner, sizeof owner) == 0) {
                image->id_size = (uint16_t)head.n_descsz;
                memcpy(image->id, note + contents, head.n_descsz);
                return;
            }
            at = next;
        }
    }
}

bool as_unwind_image_of(struct as_unwind_image *image, uintptr_t bias, const ElfW(Phdr) * headers, size_t count)
{
    *image = (struct as_unwind_image){0};
#if defined(__x86_64__)
    image->machine = EM_X86_64;
#elif defined(__aarch64__)
    image->machine = EM_AARCH64;
#endif
    const ElfW(Phdr) *header = header_of(headers, count, PT_GNU_EH_FRAME);
    bool has_text = find_text(image, headers, count);
    const ElfW(Phdr) *segment = header ? segment_of(headers, count, header->p_vaddr, header->p_memsz) : NULL;
    if (!has_text || !segment)
        return false;
    image->bytes = (const uint8_t *)(bias + segment->p_vaddr);
    image->size = segment->p_filesz;
    image->address = segment->p_vaddr;
    image->header = header->p_vaddr;
    image->header_size = header->p_memsz;
    read_id(image, bias, headers, count);
    return true;
}

// The table that another list has of the module: the loader would have had to put another module of the same build-id there.
static bool known_table(const struct as_unwind_modules *before, const struct as_unwind_image *image,
                        struct as_unwind_module *module)
{
    const struct as_unwind_module *old = before ? as_unwind_module_at(before, module->start) : NULL;
    if (!old || !old->table.head || image->id_size == 0 || old->start != module->start || old->end != module->end ||
        old->bias != module->bias || old->table.head->id_size != image->id_size ||
        memcmp(old->table.head->id, image->id, image->id_size) != 0)
        return false;
    module->table = old->table;
    return true;
}

static const char *name_of(const struct dl_phdr_info *info)
{
    return info->dlpi_name ? info->dlpi_name : "";
}

static const char *copy_name(struct loading *loading, const char *name)
{
    size_t size = strlen(name) + 1;
    if (size > loading->text_left)
        return "?"; // loaded after the names were counted: `changes` tells of it
    char *copy = memcpy(loading->text, name, size);
    loading->text += size;
    loading->text_left -= size;
    return copy;
}

static void add_module(struct loading *loading, const struct dl_phdr_info *info)
{
    struct as_unwind_modules *modules = loading->modules;
    struct as_unwind_module *module = &modules->items[modules->count];
    struct as_unwind_image image;
    bool has_image = as_unwind_image_of(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    if (image.text_size == 0 || modules->count == loading->capacity)
        return;
    bool cached = false;
    *module = (struct as_unwind_module){.start = info->dlpi_addr + image.text, .bias = info->dlpi_addr};
    module->name = copy_name(loading, name_of(info));
    module->end = module->start + image.text_size;
    if (has_image && !known_table(loading->before, &image, module))
        as_unwind_cache_table(&module->table, &image, loading->directory, &cached);
    modules->count++;
    modules->missing += !module->table.head;
    modules->cached += cached;
    modules->lost += module->table.head ? module->table.head->lost : 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
    struct loading *loading = context;
    if (size >= sizeof *info)
        loading->changes = info->dlpi_adds + info->dlpi_subs;
    loading->count++;
    if (loading->modules)
        add_module(loading, info);
    else
        loading->text_left += strlen(name_of(info)) + 1;
    return loading->count == MOST_MODULES;
}

static void sort(struct as_unwind_modules *modules)
{
    for (size_t i = 1; i < modules->count; i++) {
        struct as_unwind_module module = modules->items[i];
        size_t at = i;
        for (; at > 0 && modules->items[at - 1].start > module.start; at--)
            modules->items[at] = modules->items[at - 1];
        modules->items[at] = module;
    }
}

struct as_unwind_modules *as_unwind_modules_load(const struct as_unwind_modules *before, const char *directory)
{
    static _Atomic uint64_t generations;
    enum {
        SPARE = 16,
        SPARE_TEXT = 2048
    }; // modules that are loaded between counting and reading; `changes` tells of more
    struct loading loading = {.before = before, .directory = directory};
    dl_iterate_phdr(visit, &loading);
    loading.capacity = loading.count + SPARE;
    loading.text_left += SPARE_TEXT;
    size_t bytes = sizeof *loading.modules + loading.capacity * sizeof *loading.modules->items + loading.text_left;
    struct as_unwind_modules *modules = as_memory_map(bytes, "the list of modules", NULL);
    if (!modules)
        return NULL;
    modules->bytes = bytes;
    modules->generation = atomic_fetch_add(&generations, 1) + 1;
    loading.modules = modules;
    loading.text = (char *)&modules->items[loading.capacity];
    loading.count = 0;
    dl_iterate_phdr(visit, &loading);
    modules->changes = loading.changes;
    sort(modules);
    return modules;
}

static int visit_first(struct dl_phdr_info *info, size_t size, void *context)
{
    if (size >= sizeof *info)
        *(uint64_t *)context = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

bool as_unwind_modules_stale(const struct as_unwind_modules *modules)
{
    uint64_t changes = 0;
    dl_iterate_phdr(visit_first, &changes);
    return changes != modules->changes;
}

static bool has_table(const struct as_unwind_modules *modules, const struct as_unwind_head *head)
{
    for (size_t i = 0; modules && i < modules->count; i++)
        if (modules->items[i].table.head == head)
            return true;
    return false;
}

void as_unwind_modules_free(struct as_unwind_modules *modules, const struct as_unwind_modules *kept)
{
    for (size_t i = 0; modules && i < modules->count; i++)
        if (!has_table(kept, modules->items[i].table.head))
            as_unwind_table_free(&modules->items[i].table);
    if (modules)
        as_memory_unmap(modules, modules->bytes);
}

const struct as_unwind_module *as_unwind_module_at(const struct as_unwind_modules *modules, uintptr_t address)
{
    size_t low = 0;
    for (size_t count = modules->count; count > 1;) {
        size_t half = count / 2;
        if (modules->items[low + half].start <= address)
            low += half;
        count -= half;
    }
    const struct as_unwind_module *module = &modules->items[low];
    return modules->count > 0 && address >= module->start && address < module->end ? module : NULL;
}
