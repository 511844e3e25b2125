// SPDX-License-Identifier: MIT
// Debug information: any bytes as that of a module, as a .dwo file or as a package of such files; of modules that compilers made (the
// directory FUZZ_SPLITS: NAME, NAME.dwo, NAME.dwp). The first byte of an input says which module, and what it is. What is taken from it
// is looked up.
#include "fuzz.h"

#include "debuginfo/dwarf_files.h"
#include "debuginfo/dwarf_types.h"
#include "libc/sources.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_MODULES = 16, MOST_TYPES = 4096, FILE_NAME = 64, KINDS = 4 };
static const uint64_t ROOM = UINT64_C(16) << 20, ENOUGH = UINT64_C(1) << 20;

// What an input is. Beside the .dwo file there may be the true one, as another root has it.
enum kind { MODULE, SPLIT, SPLIT_OF_TWO, PACKAGE };

static struct module {
    char name[FILE_NAME];
    struct as_elf elf;
} modules[MOST_MODULES];
static unsigned module_count;
static int intact, scratch;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct module *)a)->name, ((const struct module *)b)->name);
}

static bool is_module(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.') && strlen(entry->d_name) + 4 < FILE_NAME;
}

static void remove_scratch(void)
{
    char path[64];
    for (unsigned i = 0; i < module_count; i++) {
        snprintf(path, sizeof path, "%.50s.dwo", modules[i].name);
        unlinkat(scratch, path, 0);
    }
    snprintf(path, sizeof path, "/tmp/fuzz_split.%d", (int)getpid());
    rmdir(path);
}

static void open_modules(const char *folder)
{
    char path[64];
    DIR *files = folder ? opendir(folder) : NULL;
    fuzz_check(files, "FUZZ_SPLITS is no directory");
    for (const struct dirent *entry; module_count < MOST_MODULES && (entry = readdir(files)) != NULL;)
        if (is_module(entry))
            snprintf(modules[module_count++].name, FILE_NAME, "%.59s", entry->d_name);
    closedir(files);
    fuzz_check(module_count > 0, "FUZZ_SPLITS has no modules");
    qsort(modules, module_count, sizeof *modules, by_name);
    intact = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < module_count; i++)
        fuzz_check(as_elf_open(&modules[i].elf, openat(intact, modules[i].name, O_RDONLY | O_CLOEXEC), NULL),
                   "a module is no ELF file");
    snprintf(path, sizeof path, "/tmp/fuzz_split.%d", (int)getpid());
    fuzz_check(mkdir(path, 0700) == 0, "no directory in /tmp");
    scratch = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    atexit(remove_scratch);
}

static void look_up(struct as_dwarf_index *x)
{
    struct as_dwarf_types types;
    fuzz_check(as_dwarf_types_open(&types, x, NULL), "no memory for a few types");
    for (size_t i = 0; i < x->variables.count && i < MOST_TYPES; i++)
        as_dwarf_type_of_variable(&types, &x->variables.items[i]);
    for (size_t i = 1; i < x->scopes.count && i < MOST_TYPES; i++)
        if (x->scopes.items[i].name)
            as_dwarf_type_named(&types, x->scopes.items[i].name);
    for (uint32_t i = 2; i < types.list.count && i < MOST_TYPES; i++) {
        const struct as_dwarf_type *type = as_dwarf_load(&types, i);
        fuzz_check((uint64_t)type->first + type->members <= types.members.count,
                   "a type has members that are not there");
    }
    as_dwarf_types_free(&types);
}

static void write_split(const struct module *m, const uint8_t *data, size_t size)
{
    char name[FILE_NAME + 8];
    snprintf(name, sizeof name, "%s.dwo", m->name);
    int fd = openat(scratch, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file in /tmp");
    close(fd);
}

static size_t count_found(const struct as_dwarf_index *x)
{
    size_t found = 0;
    for (size_t i = 0; i < x->skeletons.count; i++)
        found += x->skeletons.items[i].found;
    return found;
}

static void add_splits(struct as_dwarf_index *x, struct as_dwarf_splits *splits, const struct as_dwarf_module *of,
                       const struct module *m, enum kind kind, const uint8_t *data, size_t size)
{
    char path[FILE_NAME + 8], why[275];
    const int roots[] = {scratch, kind == SPLIT_OF_TWO ? intact : -1, -1};
    struct as_elf packages[AS_DWARF_ROOTS] = {{.fd = -1}, {.fd = -1}};
    struct as_dwarf_places places = {packages, path, roots};
    uint64_t room = ROOM;
    // In the root itself, as containers have programs.
    snprintf(path, sizeof path, "/%s", m->name);
    write_split(m, data, kind == PACKAGE ? 0 : size);
    if (kind == PACKAGE && !as_elf_open_sections(&packages[0], fuzz_file(data, size), NULL))
        packages[0].fd = -1;
    fuzz_check(as_dwarf_splits_add(splits, x, of, &places, &room, why, sizeof why, NULL), "no memory for a few types");
    bool all = count_found(x) == x->skeletons.count;
    fuzz_check(x->skeletons.count > 0, "a module has no skeletons");
    fuzz_check(all == (why[0] == '\0') || x->cut, "what is said is not what was found");
    fuzz_check(all || kind != SPLIT_OF_TWO || x->cut || room < ENOUGH, "the true file was not taken");
}

// Reads and looks up what an input is, of this module. Returns how many of the module's skeletons it, or the true file, has the rest of.
static size_t read_input(const struct module *m, enum kind kind, const uint8_t *data, size_t size)
{
    char why[128];
    struct as_elf input;
    struct as_debug_info info;
    struct as_dwarf_index index = {0};
    struct as_dwarf_splits splits = {0};
    const struct as_elf *elf = kind == MODULE ? &input : &m->elf;
    if (kind == MODULE && !as_elf_open_sections(&input, fuzz_file(data, size), NULL))
        return 0;
    bool ok = as_debug_info_open(&info, elf, ROOM, NULL, false, why, sizeof why);
    fuzz_check(ok || kind == MODULE, why);
    if (ok) {
        const struct as_dwarf_module of = {.info = &info};
        fuzz_check(as_dwarf_index_add(&index, &info, 0, 0, NULL), "no memory for a few types");
        if (kind != MODULE)
            add_splits(&index, &splits, &of, m, kind, data, size);
        fuzz_check(as_dwarf_index_finish(&index, NULL), "no memory for a few types");
        look_up(&index);
    }
    size_t found = index.variables.count > 0 ? count_found(&index) : 0;
    as_dwarf_index_free(&index);
    as_dwarf_splits_close(&splits);
    as_debug_info_close(&info);
    return found;
}

// Damage to what is not found as it is would show nothing.
static void check_true(const struct module *m, enum kind kind, const char *end)
{
    char name[FILE_NAME + 8];
    static uint8_t bytes[1 << 20];
    snprintf(name, sizeof name, "%s%s", m->name, end);
    int fd = openat(intact, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    fuzz_check(got > 0 && read_input(m, kind, bytes, (size_t)got) > 0, name);
    close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    open_modules(getenv("FUZZ_SPLITS"));
    for (unsigned i = 0; i < module_count; i++) {
        check_true(&modules[i], SPLIT, ".dwo");
        check_true(&modules[i], PACKAGE, ".dwp");
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        read_input(&modules[data[0] / KINDS % module_count], data[0] % KINDS, data + 1, size - 1);
    return 0;
}
