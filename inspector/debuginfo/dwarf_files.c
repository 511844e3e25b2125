// SPDX-License-Identifier: MIT
#include "debuginfo/dwarf_files.h"
#include "config.h"

#ifdef HAVE_LIBDW

#include "base/workers.h"
#include "libc/sources.h"
#include "target/paths.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t MOST_BYTES = UINT64_C(512) << 20, MOST_BYTES_IN_ALL = UINT64_C(1) << 30;

// Whether a file has debug information, as it is or packed.
static bool has_debug_info(const struct as_elf *elf)
{
    Elf64_Shdr section;
    return as_elf_section(elf, ".debug_info", &section) || as_elf_section(elf, ".zdebug_info", &section);
}

static const char *path_of(const struct as_modules *modules, const struct as_module *module)
{
    struct as_target *t = modules->target;
    return as_mapping_path(t, &t->mappings.items[module->first_mapping]);
}

// The file with the debug information of a module, which is the caller's to close: one of its own, or else the module's. -1: there is none.
static int open_file(const struct as_modules *modules, const struct as_module *module, struct as_elf *elf)
{
    int fd = as_debug_file_of(&module->elf, modules->target, path_of(modules, module));
    if (fd >= 0 && as_elf_open(elf, fd, NULL) && has_debug_info(elf))
        return fd;
    if (fd >= 0)
        close(fd);
    *elf = module->elf;
    return elf->fd >= 0 && has_debug_info(elf) ? fcntl(elf->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static bool is_same_file(int a, int b)
{
    struct stat x, y;
    return a >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// The packages of a module's .dwo files, which are beside it.
static void open_packages(const struct as_dwarf_files *f, struct as_dwarf_file *file)
{
    char path[PATH_MAX];
    int written = snprintf(path, sizeof path, "%s.dwp", as_strings_at(&f->paths, file->path));
    for (unsigned i = 0; path[0] == '/' && written < PATH_MAX && i < AS_DWARF_ROOTS && f->roots[i] >= 0; i++) {
        int fd = as_path_open_below(f->roots[i], path);
        if (fd < 0)
            continue;
        if (as_elf_open_sections(&file->packages[i], fd, NULL) && (i == 0 || !is_same_file(file->packages[0].fd, fd)))
            continue;
        close(fd);
        file->packages[i].fd = -1;
    }
}

static bool open_module(struct as_dwarf_files *f, const struct as_modules *modules, uint32_t i, struct as_error *err)
{
    struct as_module module = modules->list.items[i];
    struct as_dwarf_file file = {.base = module.base, .module = i};
    if (!as_module_open(modules, &module))
        return true;
    int fd = open_file(modules, &module, &file.elf);
    file.elf.fd = fd;
    as_module_close(&module);
    if (fd < 0)
        return true;
    snprintf(file.name, sizeof file.name, "%s", as_module_name(modules, &module));
    file.path = as_strings_add(&f->paths, path_of(modules, &module), PATH_MAX);
    file.packages[0].fd = file.packages[1].fd = -1;
    struct as_dwarf_file *kept = as_vec_add(&f->list, err);
    if (!kept) {
        close(fd);
        return false;
    }
    *kept = file;
    open_packages(f, kept);
    return true;
}

bool as_dwarf_files_open(struct as_dwarf_files *f, const struct as_modules *modules, struct as_error *err)
{
    struct as_target *t = modules->target;
    *f = (struct as_dwarf_files){.opened = true, .roots = {-1, -1, -1}};
    f->roots[0] = t->ops->open_root ? t->ops->open_root(t) : -1;
    f->roots[f->roots[0] >= 0] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int program = 1; program >= 0; program--) // the program's own first
        for (uint32_t i = 0; i < modules->list.count; i++)
            if (modules->list.items[i].is_program == program && !open_module(f, modules, i, err))
                return false;
    return true;
}

// Notes why debug information of a module is missing, unless that of another is.
static void note_left_out(struct as_dwarf_files *f, const struct as_dwarf_file *file, const char *why)
{
    if (why && why[0] && !f->left_out[0])
        snprintf(f->left_out, sizeof f->left_out, "debug information of %s was left out: %s", file->name, why);
}

// Unpacks the debug information of a module. *room: how many bytes of it there may still be.
static bool unpack(struct as_dwarf_files *f, struct as_dwarf_file *file, uint64_t *room)
{
    char why[200];
    bool ok = as_debug_info_open(&file->info, &file->elf, *room < MOST_BYTES ? *room : MOST_BYTES, f->roots, false, why,
                                 sizeof why);
    if (!ok)
        note_left_out(f, file, why);
    *room -= file->info.bytes < *room ? file->info.bytes : *room;
    if (!ok)
        as_debug_info_close(&file->info);
    return ok;
}

static bool read_splits(struct as_dwarf_files *f, const struct as_dwarf_file *file, uint64_t *room)
{
    char why[sizeof f->left_out - sizeof file->name - 64];
    const struct as_dwarf_module module = {&file->info, file->base, file->elf.tls_start, file->elf.tls_size,
                                           file->module};
    const struct as_dwarf_places places = {file->packages, as_strings_at(&f->paths, file->path), f->roots};
    const uint64_t most = *room < MOST_BYTES ? *room : MOST_BYTES;
    uint64_t left = most;
    bool ok = as_dwarf_splits_add(&f->splits, &f->index, &module, &places, &left, why, sizeof why, &f->err);
    *room -= most - left;
    note_left_out(f, file, why);
    return ok;
}

static void *read_all(void *files)
{
    struct as_dwarf_files *f = files;
    uint64_t room = MOST_BYTES_IN_ALL;
    f->ok = true;
    for (size_t i = 0; f->ok && i < f->list.count && !as_dwarf_index_is_stopped(&f->index); i++) {
        struct as_dwarf_file *file = &f->list.items[i];
        if (!unpack(f, file, &room))
            continue;
        f->ok = as_dwarf_index_add(&f->index, &file->info, file->module, file->base, &f->err) &&
                read_splits(f, file, &room);
        if (f->index.cut && !as_dwarf_index_is_stopped(&f->index))
            note_left_out(f, file, "all modules have more of it than is read");
    }
    f->ok = f->ok && (f->list.count == 0 || as_dwarf_index_finish(&f->index, &f->err));
    return NULL;
}

void as_dwarf_files_begin(struct as_dwarf_files *f)
{
    if (!f->reading && !f->read && f->list.count > 0)
        f->reading = as_worker_start(&f->reader, read_all, f);
}

static void wait_for_reader(struct as_dwarf_files *f)
{
    if (f->reading)
        pthread_join(f->reader, NULL);
    f->read = f->read || f->reading;
    f->reading = false;
}

const char *as_dwarf_files_left_out(const struct as_dwarf_files *f)
{
    return f->wanted && f->left_out[0] ? f->left_out : NULL;
}

bool as_dwarf_files_read(struct as_dwarf_files *f, struct as_error *err)
{
    f->wanted = true;
    wait_for_reader(f);
    if (!f->read)
        read_all(f);
    f->read = true;
    return f->ok || as_fail(err, f->err.code, "%s", f->err.text);
}

void as_dwarf_files_close(struct as_dwarf_files *f)
{
    as_dwarf_index_stop(&f->index);
    wait_for_reader(f);
    as_dwarf_index_free(&f->index);
    for (size_t i = 0; i < f->list.count; i++) {
        as_debug_info_close(&f->list.items[i].info);
        close(f->list.items[i].elf.fd);
        for (unsigned k = 0; k < AS_DWARF_ROOTS; k++)
            if (f->list.items[i].packages[k].fd >= 0)
                close(f->list.items[i].packages[k].fd);
    }
    AS_FREE_VECS(f, list, paths);
    as_dwarf_splits_close(&f->splits);
    for (size_t i = 0; i < sizeof f->roots / sizeof *f->roots; i++)
        if (f->opened && f->roots[i] >= 0)
            close(f->roots[i]);
    *f = (struct as_dwarf_files){0};
}

#else

bool as_dwarf_files_open(struct as_dwarf_files *f, const struct as_modules *modules, struct as_error *err)
{
    (void)modules;
    (void)err;
    *f = (struct as_dwarf_files){0};
    return true;
}

void as_dwarf_files_begin(struct as_dwarf_files *f)
{
    (void)f;
}

const char *as_dwarf_files_left_out(const struct as_dwarf_files *f)
{
    (void)f;
    return NULL;
}

bool as_dwarf_files_read(struct as_dwarf_files *f, struct as_error *err)
{
    (void)f;
    (void)err;
    return true;
}

void as_dwarf_files_close(struct as_dwarf_files *f)
{
    (void)f;
}

#endif
