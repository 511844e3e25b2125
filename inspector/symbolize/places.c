// SPDX-License-Identifier: MIT
#include "symbolize/places.h"
#include "debuginfo/demangle.h"
#include "libc/sources.h"
#include "symbolize/functions.h"
#include "symbolize/lines.h"
#include "target/paths.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST = 4096, MOST_MODULES = AS_PLACES_JIT };

struct as_places_module {
    char build_id[41];
    uint32_t path;
    uint64_t start;
    bool opened;
    bool has_lines;
    struct as_source_lines lines;
    struct as_functions functions;
};

uint32_t as_places_add_module(struct as_places *p, const char *path, const char *build_id, uint64_t start,
                              struct as_error *err)
{
    if (p->modules.count >= MOST_MODULES) {
        as_fail(err, AS_NO_MEMORY, "more than %d modules", MOST_MODULES);
        return UINT32_MAX;
    }
    struct as_places_module *m = as_vec_add(&p->modules, err);
    if (!m)
        return UINT32_MAX;
    m->path = as_strings_add(&p->strings, path, PATH_MAX);
    m->start = start;
    snprintf(m->build_id, sizeof m->build_id, "%s", build_id);
    return (uint32_t)p->modules.count - 1;
}

void as_places_set_root(struct as_places *p, int root, bool sure)
{
    p->root = root;
    p->has_root = true;
    p->root_is_sure = sure;
}

void as_places_set_open(struct as_places *p, as_places_open *open, void *context)
{
    p->open_mapped = open;
    p->context = context;
}

bool as_places_add_perf_map(struct as_places *p, const char *path, unsigned owner, struct as_error *err)
{
    AS_CLEANUP_FD int ours = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return as_perf_map_read(&p->jit, p->has_root ? p->root : ours, path, owner, err);
}

// Symbols and lines of a file: those of its own, and of a separate debug file.
static bool take_file(struct as_places_module *m, const struct as_elf *elf, const int *roots, struct as_error *err)
{
    if (elf->fd < 0)
        return true;
    m->has_lines = m->has_lines || as_source_lines_open(&m->lines, elf, roots);
    return m->functions.list.count > 0 || as_functions_add(&m->functions, elf, false, err);
}

// The file, if it is of the module's build; else it is closed: -1.
static int of_build(const struct as_places_module *m, int fd, struct as_elf *elf)
{
    if (fd >= 0 && (!as_elf_open(elf, fd, NULL) || strcmp(elf->build_id, m->build_id) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

// The module's file below a root; -1: there is none of this build.
static int open_build(const struct as_places_module *m, int root, const char *path, struct as_elf *elf)
{
    return root < 0 ? -1 : of_build(m, as_path_open_below(root, path), elf);
}

// The file below our own root; -1: there is none of this build. Without a build-id nothing tells that the process had this file: a
// dump, or a process with another root directory, may name any. So root shows names only from one that everybody may read.
static int open_ours(const struct as_places_module *m, int ours, const char *path, struct as_elf *elf)
{
    struct stat st;
    int fd = open_build(m, ours, path, elf);
    if (fd < 0 || m->build_id[0] || geteuid() != 0 || (fstat(fd, &st) == 0 && (st.st_mode & S_IROTH) != 0))
        return fd;
    close(fd);
    return -1;
}

// As the process has it; -1: there is none of this build.
static int open_mapped(const struct as_places *p, const struct as_places_module *m, struct as_elf *elf)
{
    return p->open_mapped && m->build_id[0] ? of_build(m, p->open_mapped(p->context, m->start), elf) : -1;
}

static bool open_module(struct as_places *p, struct as_places_module *m, struct as_error *err)
{
    AS_CLEANUP_FD int ours = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AS_CLEANUP_FD int debug_fd = -1;
    const int its = p->has_root && (p->root_is_sure || m->build_id[0]) ? p->root : -1;
    const int roots[] = {ours, its, -1};
    const char *path = as_strings_at(&p->strings, m->path);
    struct as_elf elf = {.fd = -1};
    struct as_elf debug;
    m->opened = true;
    AS_CLEANUP_FD int below_its = open_build(m, its, path, &elf);
    AS_CLEANUP_FD int below_ours = below_its < 0 ? open_ours(m, ours, path, &elf) : -1;
    AS_CLEANUP_FD int mapped = below_its < 0 && below_ours < 0 ? open_mapped(p, m, &elf) : -1;
    if (below_its < 0 && below_ours < 0 && mapped < 0) {
        elf = (struct as_elf){.fd = -1}; // another build: its debug file may still be there
        snprintf(elf.build_id, sizeof elf.build_id, "%s", m->build_id);
    }
    debug_fd = elf.build_id[0] ? as_debug_file_open(&elf, roots, path) : -1;
    bool ok = true;
    if (debug_fd >= 0 && as_elf_open(&debug, debug_fd, NULL))
        ok = take_file(m, &debug, roots, err);
    ok = ok && take_file(m, &elf, roots, err);
    if (ok && m->functions.list.count == 0 && elf.fd >= 0)
        ok = as_functions_add(&m->functions, &elf, true, err);
    as_functions_sort(&m->functions);
    return ok;
}

static bool add_symbol(struct as_places *p, const char *name, enum as_place_source source, struct as_error *err)
{
    char text[LONGEST];
    struct as_code_place *place = as_vec_add(&p->places, err);
    if (!place)
        return false;
    *place = (struct as_code_place){.source = (uint8_t)(name ? source : AS_PLACE_UNKNOWN)};
    if (name)
        place->function = as_strings_add(&p->strings, as_name_demangled(name, false, text, sizeof text), sizeof text);
    return true;
}

static bool find_symbol(struct as_places *p, uint32_t module, uint64_t address, struct as_error *err)
{
    size_t before = p->places.count;
    if (module >= p->modules.count)
        return add_symbol(p, module == AS_PLACES_JIT ? as_functions_at(&p->jit, address) : NULL, AS_PLACE_PERF_MAP,
                          err);
    struct as_places_module *m = &p->modules.items[module];
    if (!m->opened && !open_module(p, m, err))
        return false;
    if (m->has_lines && !as_source_lines_find(&m->lines, address, &p->places, &p->strings, err))
        return false;
    const char *symbol = as_functions_at(&m->functions, address);
    return p->places.count > before || add_symbol(p, symbol, AS_PLACE_SYMBOL, err);
}

const struct as_code_place *as_places_at(struct as_places *p, uint32_t module, uint64_t address, size_t *count,
                                         struct as_error *err)
{
    enum { ADDRESS_BITS = 48 };
    uint64_t key = (((uint64_t)module + 1) << ADDRESS_BITS) | (address & ((UINT64_C(1) << ADDRESS_BITS) - 1));
    uint32_t number = as_number_map_get(&p->cache, key);
    if (number == 0) {
        uint32_t first = (uint32_t)p->places.count;
        struct as_places_found *found = find_symbol(p, module, address, err) ? as_vec_add(&p->found, err) : NULL;
        if (!found)
            return NULL;
        *found = (struct as_places_found){.first = first, .count = (uint32_t)p->places.count - first};
        number = (uint32_t)p->found.count;
        if (!as_number_map_put(&p->cache, key, number, err))
            return NULL;
    }
    const struct as_places_found *found = &p->found.items[number - 1];
    *count = found->count;
    return &p->places.items[found->first];
}

void as_places_free(struct as_places *p)
{
    for (size_t i = 0; i < p->modules.count; i++) {
        if (p->modules.items[i].has_lines)
            as_source_lines_close(&p->modules.items[i].lines);
        as_functions_free(&p->modules.items[i].functions);
    }
    AS_FREE_VECS(p, modules, places, found, strings);
    as_number_map_free(&p->cache);
    as_functions_free(&p->jit);
    if (p->has_root && p->root >= 0)
        close(p->root);
    *p = (struct as_places){0};
}
