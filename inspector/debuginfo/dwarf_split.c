// SPDX-License-Identifier: MIT
#include "config.h"

#include "debuginfo/dwarf_files.h"

#ifdef HAVE_LIBDW

#include "target/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SHOWN = 80,     // characters of a name, of its end
    PATHS = 3,      // that a .dwo file may have
    SEARCHED = 500, // bytes of text about them
};

struct split_adding {
    struct as_dwarf_splits *splits;
    struct as_dwarf_index *index;
    const struct as_dwarf_module *module;
    const struct as_dwarf_places *places;
    uint64_t *room;
    struct as_error *err;
    size_t left_out; // .dwo files
    bool named;      // `why` is of the first of them, not of the package
    char *why;
    size_t why_size;
};

// For the .dwo file of one unit.
struct split_search {
    size_t skeleton; // index
    char paths[PATHS][PATH_MAX];
    unsigned paths_count;
    struct stat seen[PATHS * AS_DWARF_ROOTS]; // files that several of the names lead to are read once
    unsigned seen_count;
    char searched[SEARCHED]; // what is wrong with those that are there
};

static const char *end_of(const char *name)
{
    size_t length = strlen(name);
    return length > SHOWN ? name + length - SHOWN : name;
}

// Whose file it is, where there are several of one name. Paths are those that the target knows.
static const char *whose(unsigned root)
{
    return root == 0 ? "" : "this machine's ";
}

__attribute__((format(printf, 3, 4))) static void add_text(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    if (used > 0)
        used += (size_t)snprintf(text + used, size - used, ", ");
    va_start(args, format);
    if (used < size)
        vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static bool is_found(const struct split_adding *a, size_t skeleton)
{
    return a->index->skeletons.items[skeleton].found;
}

static bool are_all_found(const struct split_adding *a)
{
    size_t i = 0;
    while (i < a->index->skeletons.count && is_found(a, i))
        i++;
    return i == a->index->skeletons.count;
}

static bool is_any_found(const struct split_adding *a)
{
    size_t i = 0;
    while (i < a->index->skeletons.count && !is_found(a, i))
        i++;
    return i < a->index->skeletons.count;
}

// `folder`: NULL: the name is a path.
static void add_path(struct split_search *s, const char *folder, size_t length, const char *name)
{
    char *path = s->paths[s->paths_count];
    int written = snprintf(path, PATH_MAX, "%.*s%s%s", length < PATH_MAX ? (int)length : 0, folder ? folder : "",
                           folder ? "/" : "", name);
    bool known = length >= PATH_MAX || path[0] != '/' || written < 0 || written >= PATH_MAX;
    for (unsigned i = 0; i < s->paths_count; i++)
        known = known || strcmp(s->paths[i], path) == 0;
    s->paths_count += !known;
}

// Where the compiler wrote it, or beside the module, if both were moved.
static void find_paths(struct split_search *s, const struct as_dwarf_skeleton *of, const char *module)
{
    const char *slash = strrchr(module, '/'), *last = strrchr(of->name, '/');
    size_t beside = slash ? (size_t)(slash - module) : 0;
    if (of->name[0] == '/')
        add_path(s, NULL, 0, of->name);
    else if (of->folder && of->folder[0] == '/')
        add_path(s, of->folder, strlen(of->folder), of->name);
    if (slash && of->name[0] != '/')
        add_path(s, module, beside, of->name);
    if (slash && last)
        add_path(s, module, beside, last + 1);
}

// Opens one of the files, if no other name has led to it. -1: there is none.
static int open_new(struct split_search *s, unsigned root, int root_fd, const char *path)
{
    struct stat *status = &s->seen[s->seen_count];
    int fd = as_path_open_below(root_fd, path);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        add_text(s->searched, sizeof s->searched, "%s%s cannot be opened", whose(root), end_of(path));
    if (fd < 0 || fstat(fd, status) != 0)
        return fd;
    for (unsigned i = 0; i < s->seen_count; i++) {
        if (s->seen[i].st_dev == status->st_dev && s->seen[i].st_ino == status->st_ino) {
            close(fd);
            return -1;
        }
    }
    s->seen_count++;
    return fd;
}

// Keeps what the index has taken types from, and drops what it has not. False: AS_NO_MEMORY.
static bool keep_split_unit(struct split_adding *a, struct as_debug_info *info)
{
    bool taken = false, ok = as_vec_reserve(&a->splits->list, 1, a->err) &&
                             as_dwarf_index_add_split(a->index, info, a->module, &taken, a->err);
    if (taken)
        a->splits->list.items[a->splits->list.count++] = *info;
    else
        as_debug_info_close(info);
    return ok;
}

// Reads the package, if it is of this build. False: AS_NO_MEMORY.
static bool add_package(struct split_adding *a, unsigned root)
{
    char why[128];
    const char *slash = strrchr(a->places->path, '/'), *name = end_of(slash ? slash + 1 : a->places->path);
    struct as_debug_files files;
    as_byte_vec *image = as_vec_add(&a->splits->packages, a->err);
    size_t before = a->splits->list.count;
    if (!image)
        return false;
    bool ok = true, made = as_dwarf_package_make(image, &a->places->packages[root], *a->room, &files, why, sizeof why);
    *a->room -= files.bytes < *a->room ? files.bytes : *a->room;
    for (uint32_t i = 0; made && ok && i < files.count && !as_dwarf_index_is_stopped(a->index); i++) {
        struct as_debug_info info;
        bool opened = as_debug_info_open_packed(&info, image, &files, i);
        ok = opened ? keep_split_unit(a, &info) : (as_debug_info_close(&info), true);
    }
    if (!made)
        add_text(a->why, a->why_size, "%s%s.dwp cannot be read: %s", whose(root), name, why);
    else if (ok && a->splits->list.count == before && !a->index->cut && !is_any_found(a))
        add_text(a->why, a->why_size, "%s%s.dwp is of another build", whose(root), name);
    if (a->splits->list.count == before)
        as_vec_free(image);
    return ok;
}

// Reads one of the files that may have the rest of the unit. False: AS_NO_MEMORY.
static bool add_file(struct split_adding *a, struct split_search *s, unsigned root, const char *path)
{
    char why[128] = "";
    struct as_elf elf;
    struct as_debug_info info = {0};
    int fd = open_new(s, root, a->places->roots[root], path);
    if (fd < 0)
        return true;
    bool opened =
        as_elf_open_sections(&elf, fd, NULL) && as_debug_info_open_split(&info, &elf, *a->room, why, sizeof why);
    close(fd);
    // What does not match counts too: so is the work bounded.
    *a->room -= info.bytes < *a->room ? info.bytes : *a->room;
    if (!opened) {
        as_debug_info_close(&info);
        add_text(s->searched, sizeof s->searched, "%s%s %s%s", whose(root), end_of(path),
                 why[0] ? "cannot be read: " : "is no file of debug information", why);
        return true;
    }
    bool ok = keep_split_unit(a, &info);
    if (ok && !is_found(a, s->skeleton))
        add_text(s->searched, sizeof s->searched, "%s%s is of another build", whose(root), end_of(path));
    return ok;
}

static void note_left_out(struct split_adding *a, const struct split_search *s)
{
    a->left_out++;
    if (a->why[0] != '\0')
        return;
    a->named = true;
    if (s->searched[0] != '\0') {
        snprintf(a->why, a->why_size, "%s", s->searched);
        return;
    }
    snprintf(a->why, a->why_size, "%s is missing", end_of(a->index->skeletons.items[s->skeleton].name));
    for (unsigned i = 0; i < s->paths_count; i++) {
        size_t used = strlen(a->why);
        snprintf(a->why + used, a->why_size - used, "%s%s%s", i == 0 ? " (searched for: " : ", ", end_of(s->paths[i]),
                 i + 1 == s->paths_count ? ")" : "");
    }
}

// Reads the rest of one unit, from the first file that has it. False: AS_NO_MEMORY.
static bool add_unit(struct split_adding *a, size_t skeleton)
{
    struct split_search s;
    s.skeleton = skeleton;
    s.paths_count = s.seen_count = 0;
    s.searched[0] = '\0';
    find_paths(&s, &a->index->skeletons.items[skeleton], a->places->path);
    bool ok = true;
    for (unsigned root = 0; root < AS_DWARF_ROOTS && a->places->roots[root] >= 0; root++)
        for (unsigned i = 0; ok && i < s.paths_count && !is_found(a, skeleton); i++)
            ok = add_file(a, &s, root, s.paths[i]);
    if (ok && !is_found(a, skeleton) && !a->index->cut)
        note_left_out(a, &s);
    return ok;
}

// NOLINTBEGIN(readability-non-const-parameter): written through the struct
bool as_dwarf_splits_add(struct as_dwarf_splits *s, struct as_dwarf_index *x, const struct as_dwarf_module *of,
                         const struct as_dwarf_places *places, uint64_t *room, char *why, size_t why_size,
                         struct as_error *err)
// NOLINTEND(readability-non-const-parameter)
{
    struct split_adding a = {s, x, of, places, room, err, .why = why, .why_size = why_size};
    why[0] = '\0';
    bool ok = true;
    for (unsigned root = 0; root < AS_DWARF_ROOTS; root++)
        ok = ok && (places->packages[root].fd < 0 || x->cut || are_all_found(&a) || add_package(&a, root));
    for (size_t i = 0; ok && i < x->skeletons.count && !x->cut && !as_dwarf_index_is_stopped(x); i++)
        ok = is_found(&a, i) || add_unit(&a, i);
    if (are_all_found(&a))
        why[0] = '\0'; // the files had what the package did not have
    size_t length = strlen(why);
    if (a.left_out > a.named)
        snprintf(why + length, why_size - length, ", and %zu%s of %zu .dwo files were not read", a.left_out - a.named,
                 a.named ? " more" : "", x->skeletons.count);
    return ok;
}

void as_dwarf_splits_close(struct as_dwarf_splits *s)
{
    for (size_t i = 0; i < s->list.count; i++)
        as_debug_info_close(&s->list.items[i]);
    as_vec_free(&s->list);
    for (size_t i = 0; i < s->packages.count; i++)
        as_vec_free(&s->packages.items[i]);
    as_vec_free(&s->packages);
}

#endif
