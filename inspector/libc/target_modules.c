// SPDX-License-Identifier: MIT
// Groups a target's mappings into objects, and opens their files.
#include "libc/target_modules.h"

#include <string.h>
#include <unistd.h>

// A process maps hundreds of objects; a hostile core may claim any number.
enum { MAX_MODULES = 8192, MAX_LINK_MAPS = 8192, MAX_DYNAMIC_WORDS = 512, READ_BACK = 64 };

static bool same_file(const struct as_mapping *a, const struct as_mapping *b)
{
    return a->path == b->path && a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

// Paths are stored once a mapping or once a file, as the target likes; compare what they say.
static bool is_of_module(const struct as_target *t, const struct as_module *module, const struct as_mapping *m)
{
    const struct as_mapping *first = &t->mappings.items[module->first_mapping];
    if (same_file(first, m))
        return true;
    return first->inode == m->inode && first->dev_major == m->dev_major && first->dev_minor == m->dev_minor &&
           strcmp(as_mapping_path(t, first), as_mapping_path(t, m)) == 0;
}

// Whether anything of the file is mapped as code.
static bool is_executable(const struct as_modules *modules, const struct as_module *module)
{
    const struct as_target *t = modules->target;
    unsigned seen = 0;
    for (size_t i = module->first_mapping; i < t->mappings.count && seen < module->mapping_count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (m->start < module->start || m->end > module->end || !is_of_module(t, module, m))
            continue;
        seen++;
        if (m->prot & AS_PROT_EXEC)
            return true;
    }
    return false;
}

// A core does not always say what is code: gdb leaves it out, and what is left out has no protection; but there are several mappings of an
// object.
static bool may_be_object(const struct as_modules *modules, const struct as_module *module)
{
    return (modules->target->kind == AS_TARGET_CORE && module->mapping_count > 1) || is_executable(modules, module);
}

// Makes room where there are too many: a program may have any number of data files mapped, each of which begins as an object
// does.
static bool drop_data(struct as_modules *modules)
{
    size_t kept = 0;
    size_t count = modules->list.count;
    for (size_t i = 0; i < count; i++) {
        struct as_module *module = &modules->list.items[i];
        if (count - i <= READ_BACK || may_be_object(modules, module)) // the last may go on
            modules->list.items[kept++] = *module;
    }
    modules->list.count = kept;
    return kept < count;
}

static bool group_mappings(struct as_modules *modules, struct as_error *err)
{
    const struct as_target *t = modules->target;
    for (size_t i = 0; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        struct as_module *module = NULL;
        if (!as_mapping_of_file(m))
            continue;
        if (m->path == 0 || as_mapping_path(t, m)[0] != '/')
            continue;
        // A mapping of the file's beginning opens an object; the others belong to the last one of their file. Objects
        // may nest (a library mapped into a gap of another), never deeply.
        for (size_t k = modules->list.count; m->offset != 0 && k-- > 0 && modules->list.count - k <= READ_BACK;) {
            if (is_of_module(t, &modules->list.items[k], m)) {
                module = &modules->list.items[k];
                break;
            }
        }
        // An object maps its beginning again when that is writable too, or was split by mprotect.
        if (m->offset == 0 && modules->list.count) {
            struct as_module *last = &modules->list.items[modules->list.count - 1];
            const struct as_mapping *before = &t->mappings.items[last->first_mapping];
            if (last->end == m->start && last->mapping_count == 1 && before->offset == 0 && is_of_module(t, last, m) &&
                (m->prot & AS_PROT_WRITE))
                module = last;
        }
        if (!module) {
            modules->cut = modules->list.count == MAX_MODULES && !drop_data(modules);
            if (modules->cut)
                return true;
            module = as_vec_add(&modules->list, err);
            if (!module)
                return false;
            *module =
                (struct as_module){.first_mapping = (uint32_t)i, .start = m->start, .elf.fd = -1, .order = AS_NO_ORDER};
        }
        module->mapping_count++;
        module->end = m->end;
    }
    return true;
}

// Where the object's address 0 lies: by the segment whose file offset its first mapping has.
static bool find_base(const struct as_target *t, struct as_module *module)
{
    const struct as_mapping *first = &t->mappings.items[module->first_mapping];
    uint64_t page = ~(uint64_t)(t->page_size - 1);
    AS_FOR_ITEMS(const struct as_elf_load, load, module->elf.loads, module->elf.load_count) {
        if ((load->offset & page) == first->offset) {
            module->base = module->elf.type == ET_EXEC ? 0 : first->start - (load->vaddr & page);
            return true;
        }
    }
    return false;
}

// A core's file, found by its path, may be another build than the one that ran.
static bool is_same_build(struct as_target *t, const struct as_module *module)
{
    struct as_elf mapped;
    return !as_elf_open_mapped(&mapped, t, module->start, NULL) || mapped.build_id[0] == '\0' ||
           strcmp(mapped.build_id, module->elf.build_id) == 0;
}

// Opens the file of a module that is known to have one, or its pages in memory.
bool as_module_open(const struct as_modules *modules, struct as_module *module)
{
    struct as_target *t = modules->target;
    if (!module->has_file)
        return as_elf_open_mapped(&module->elf, t, module->start, NULL);
    int fd = t->ops->open_file(t, &t->mappings.items[module->first_mapping], NULL);
    if (fd >= 0 && as_elf_open(&module->elf, fd, NULL))
        return true;
    if (fd >= 0)
        close(fd);
    module->elf.fd = -1;
    return false;
}

void as_module_close(struct as_module *module)
{
    if (module->elf.fd >= 0)
        close(module->elf.fd);
    module->elf.fd = -1;
}

bool as_module_open_first(const struct as_modules *modules, struct as_module *module)
{
    struct as_target *t = modules->target;
    module->has_file = true;
    if (as_module_open(modules, module)) {
        if (find_base(t, module) && (t->kind != AS_TARGET_CORE || is_same_build(t, module)))
            return true;
        as_module_close(module);
    }
    module->has_file = false;
    if (t->mappings.items[module->first_mapping].offset != 0 || !as_module_open(modules, module))
        return false;
    module->base = module->elf.type == ET_EXEC ? 0 : module->elf.base;
    return true;
}

static bool exports(const struct as_module *module, const char *name)
{
    Elf64_Sym symbol;
    return as_elf_dynamic_symbol(&module->elf, name, &symbol) && symbol.st_value != 0 &&
           (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC || ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC);
}

static void classify_module(struct as_module *module)
{
    module->is_program = module->elf.has_interp || (module->elf.needed_count == 0 && module->elf.soname[0] == '\0');
    module->interpreters = as_interpreters_in(&module->elf, module->is_program);
    module->defines_malloc = exports(module, "malloc");
    if (!module->defines_malloc)
        return;
    module->is_jemalloc = exports(module, "mallctl") || exports(module, "je_mallctl") || exports(module, "mallocx");
    module->is_tcmalloc = exports(module, "tc_malloc") || exports(module, "MallocExtension_ReleaseFreeMemory");
    module->is_mimalloc = exports(module, "mi_malloc");
    module->is_asan = exports(module, "__asan_init");
    module->has_chromium_shim = exports(module, "malloc_size") && exports(module, "__libc_malloc") &&
                                exports(module, "__posix_memalign") && exports(module, "_Znwm");
}

static uint64_t dynamic_value(struct as_target *t, const struct as_module *module, int64_t tag)
{
    Elf64_Dyn entry;
    uint64_t count = module->elf.dynamic_size / sizeof entry;
    for (uint64_t i = 0; i < count && i < MAX_DYNAMIC_WORDS; i++) {
        if (!as_target_read(t, module->base + module->elf.dynamic + i * sizeof entry, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            return 0;
        if (entry.d_tag == tag)
            return entry.d_un.d_val;
    }
    return 0;
}

// ld.so's list of what it loaded, for debuggers: by DT_DEBUG of the program, or by the symbol that it stands for.
static uint64_t debug_map(struct as_modules *modules)
{
    struct as_target *t = modules->target;
    uint64_t map;
    AS_FOR_EACH(const struct as_module, module, &modules->list) {
        uint64_t debug = module->elf.has_interp ? dynamic_value(t, module, DT_DEBUG) : 0;
        if (debug && as_target_read_u64(t, debug + 8, &map) && map)
            return map;
    }
    AS_FOR_EACH(const struct as_module, module, &modules->list) {
        Elf64_Sym symbol;
        struct as_elf mapped;
        if (strncmp(module->elf.soname, "ld-linux", 8) == 0 && as_elf_open_mapped(&mapped, t, module->start, NULL) &&
            as_elf_dynamic_symbol(&mapped, "_r_debug", &symbol) &&
            as_target_read_u64(t, module->base + symbol.st_value + 8, &map) && map)
            return map;
    }
    return 0;
}

static void order_modules(struct as_modules *modules)
{
    struct as_target *t = modules->target;
    uint64_t map = debug_map(modules);
    for (uint32_t order = 0; map && order < MAX_LINK_MAPS; order++) {
        uint64_t words[4]; // l_addr, l_name, l_ld, l_next
        if (!as_target_read(t, map, words, sizeof words))
            return;
        AS_FOR_EACH(struct as_module, module, &modules->list) {
            // l_ld is the object's dynamic section, which tells two of the same file apart.
            if (words[2] == module->base + module->elf.dynamic && module->order == AS_NO_ORDER) {
                module->order = order;
                module->link_map = map;
                modules->ordered = true;
            }
        }
        map = words[3];
    }
}

#ifndef AS_AGENT
const struct as_elf_load *as_module_constant_at(const struct as_modules *modules, const struct as_module *module,
                                                uint64_t start, uint64_t end)
{
    const uint64_t page = modules->target->page_size;
    AS_FOR_ITEMS(const struct as_elf_load, load, module->elf.loads, module->elf.load_count) {
        uint64_t first = module->base + load->vaddr, last = first + load->memsz;
        if (!(load->flags & PF_W) && first / page * page <= start && end <= (last + page - 1) / page * page)
            return load;
    }
    return NULL;
}

// Says of an open object what is code, where a core does not. Code that nobody may write to, as gdb leaves it out.
static void mark_code(struct as_modules *modules, const struct as_module *module)
{
    struct as_target *t = modules->target;
    for (size_t i = module->first_mapping; i < t->mappings.count && t->mappings.items[i].start < module->end; i++) {
        struct as_mapping *m = &t->mappings.items[i];
        const struct as_elf_load *load = m->prot_unknown && is_of_module(t, module, m)
                                             ? as_module_constant_at(modules, module, m->start, m->end)
                                             : NULL;
        if (!load)
            continue;
        m->prot = AS_PROT_READ | (load->flags & PF_X ? AS_PROT_EXEC : 0u);
        m->prot_unknown = false;
    }
}

// Notes a file of which something is neither in the core nor here. (Of an object whose headers and code are one mapping, a core has the
// first page.)
static void note_missing(struct as_modules *modules, const struct as_module *module)
{
    struct as_target *t = modules->target;
    uint8_t byte;
    for (size_t i = module->first_mapping; i < t->mappings.count && t->mappings.items[i].start < module->end; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (!is_of_module(t, module, m) || (m->prot & AS_PROT_WRITE) ||
            (as_target_read(t, m->start, &byte, 1) && as_target_read(t, m->end - 1, &byte, 1)))
            continue;
        if (modules->missing++ == 0)
            modules->first_missing = (uint32_t)i;
        return;
    }
}

static bool has_file(const struct as_modules *modules, const struct as_module *module)
{
    struct as_target *t = modules->target;
    int fd = t->ops->open_file(t, &t->mappings.items[module->first_mapping], NULL);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
#endif

bool as_modules_find(struct as_modules *modules, struct as_target *t, struct as_error *err)
{
    *modules = (struct as_modules){.target = t};
    if (!group_mappings(modules, err)) {
        as_modules_free(modules);
        return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < modules->list.count; i++) {
        struct as_module module = modules->list.items[i];
        bool core = t->kind == AS_TARGET_CORE;
        bool opened = (core || is_executable(modules, &module)) && as_module_open_first(modules, &module);
#ifndef AS_AGENT
        if (core && opened)
            mark_code(modules, &module);
        if (core && (opened || may_be_object(modules, &module)) &&
            !(opened ? module.has_file : has_file(modules, &module)))
            note_missing(modules, &module);
#endif
        if (!opened)
            continue;
        const struct as_mapping *first = &t->mappings.items[module.first_mapping];
        module.inode = first->inode;
        module.dev_major = first->dev_major;
        module.dev_minor = first->dev_minor;
        classify_module(&module);
        as_module_close(&module);
        modules->list.items[kept++] = module;
    }
    modules->list.count = kept;
    order_modules(modules);
    return true;
}

void as_modules_refresh(struct as_modules *modules)
{
    const struct as_target *t = modules->target;
    size_t kept = 0;
    for (size_t i = 0; i < modules->list.count; i++) {
        struct as_module module = modules->list.items[i];
        size_t at = as_target_mapping_from(t, module.start);
        const struct as_mapping *m = at < t->mappings.count ? &t->mappings.items[at] : NULL;
        if (!m || m->start != module.start || m->inode != module.inode || m->dev_major != module.dev_major ||
            m->dev_minor != module.dev_minor)
            continue;
        module.first_mapping = (uint32_t)at;
        modules->list.items[kept++] = module;
    }
    modules->list.count = kept;
}

bool as_module_has(const struct as_modules *modules, const struct as_module *module, const struct as_mapping *m)
{
    return is_of_module(modules->target, module, m);
}

void as_modules_free(struct as_modules *modules)
{
    as_vec_free(&modules->list);
}

const char *as_module_name(const struct as_modules *modules, const struct as_module *module)
{
    const struct as_target *t = modules->target;
    const char *path = as_mapping_path(t, &t->mappings.items[module->first_mapping]);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool as_module_writable(const struct as_modules *modules, const struct as_module *module, unsigned index,
                        uint64_t *start, uint64_t *end)
{
    const struct as_target *t = modules->target;
    for (size_t i = module->first_mapping; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (m->start >= module->end)
            return false;
        if (!(m->prot & AS_PROT_WRITE) || !is_of_module(t, module, m) || index-- > 0)
            continue;
        *start = m->start;
        *end = m->end;
        // Its .bss: anonymous memory that goes on where the data ends.
        for (i++; i < t->mappings.count && t->mappings.items[i].start == *end &&
                  (t->mappings.items[i].prot & AS_PROT_WRITE) &&
                  (t->mappings.items[i].kind == AS_MAP_ANON || is_of_module(t, module, &t->mappings.items[i]));
             i++)
            *end = t->mappings.items[i].end;
        return true;
    }
    return false;
}
