// SPDX-License-Identifier: MIT
// Tables of this process's modules, intact and damaged, and the files in which they are kept.
#include "support/check.h"
#include "unwind/rule.h"
#include "unwind/table.h"
#include "unwind/unwind_modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct as_unwind_image image; // libc's
static char directory[64] = "/tmp/arenascope-unwind-XXXXXX";
static char path[512];

static int find_libc(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    return strstr(info->dlpi_name, "libc.so") &&
           as_unwind_image_of(&image, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
}

static void test_rules(void)
{
    uint64_t rule = as_unwind_rule(AS_UNWIND_AT_FP, -3, AS_UNWIND_LOST, AS_UNWIND_OFFSETS - 1);
    CHECK(as_unwind_kind(rule) == AS_UNWIND_AT_FP && as_unwind_cfa(rule) == -3);
    CHECK(as_unwind_fp(rule) == AS_UNWIND_LOST && as_unwind_third(rule) == AS_UNWIND_OFFSETS - 1);
    rule = as_unwind_rule(AS_UNWIND_SP, AS_UNWIND_CFA_OFFSETS - 1, -2, -AS_UNWIND_OFFSETS + 1) | AS_UNWIND_EXACT;
    CHECK(as_unwind_cfa(rule) == AS_UNWIND_CFA_OFFSETS - 1 && as_unwind_fp(rule) == -2);
    CHECK(as_unwind_third(rule) == -AS_UNWIND_OFFSETS + 1 && as_unwind_kind(rule) == AS_UNWIND_SP);
    CHECK(as_unwind_cfa(as_unwind_special(AS_UNWIND_PLT + 15)) == AS_UNWIND_PLT + 15);
}

static bool same(const struct as_unwind_table *a, const struct as_unwind_table *b)
{
    return a->head && b->head && a->bytes == b->bytes && memcmp(a->head, b->head, a->bytes) == 0;
}

// Without the list of functions, the entries are read one by one: the same rows.
static void test_without_list(const struct as_unwind_table *table)
{
    uint8_t *copy = malloc(image.size);
    CHECK(copy);
    memcpy(copy, image.bytes, image.size);
    copy[image.header - image.address + 3] = 0xff; // DW_EH_PE_omit
    struct as_unwind_image changed = image;
    struct as_unwind_table other;
    changed.bytes = copy;
    CHECK(as_unwind_table_make(&other, &changed));
    CHECK(other.bytes == table->bytes && other.head->rows == table->head->rows);
    CHECK(memcmp(other.blocks, table->blocks, table->head->blocks * sizeof *table->blocks) == 0);
    for (uint64_t i = 0; i < table->head->rows; i++) // the rules may have other numbers
        CHECK(other.rows[i].place == table->rows[i].place &&
              other.rules[other.rows[i].rule] == table->rules[table->rows[i].rule]);
    as_unwind_table_free(&other);
    free(copy);
}

// Any bytes may be in the segment: no crash (under sanitizers: no read outside of it), and a table that is sound.
static void test_damage(void)
{
    uint64_t random = 88172645463325252U;
    uint8_t *copy = malloc(image.size);
    CHECK(copy);
    struct as_unwind_image changed = image;
    changed.bytes = copy;
    for (int round = 0; round < 40; round++) {
        memcpy(copy, image.bytes, image.size);
        size_t begin = image.header - image.address;
        for (int i = 0; i < (round % 4 == 0 ? 1 : 2000); i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            copy[begin + (random >> 8) % (image.size - begin)] = (uint8_t)random;
        }
        struct as_unwind_table table;
        struct as_unwind_table again;
        changed.size = round % 5 == 0 ? begin + random % (image.size - begin) : image.size;
        if (!as_unwind_table_make(&table, &changed))
            continue;
        CHECK(as_unwind_table_read(&again, table.head, table.bytes, &changed));
        as_unwind_table_free(&table);
    }
    free(copy);
}

static void take_table(struct as_unwind_table *table, const struct as_unwind_table *truth, bool from_cache)
{
    bool cached = !from_cache;
    CHECK(as_unwind_cache_table(table, &image, directory, &cached));
    CHECK(cached == from_cache && same(table, truth));
    as_unwind_table_free(table);
}

static bool is_of_file(const void *address)
{
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (uintptr_t)address >= start && (uintptr_t)address < end)
            found = strstr(line, ".unwind") != NULL;
    }
    (void)fclose(maps);
    return found;
}

static void change_byte(off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 4;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static void test_cache(const struct as_unwind_table *truth)
{
    struct as_unwind_table table;
    struct stat st;
    bool cached;
    CHECK(as_unwind_cache_table(&table, &image, directory, &cached) && !cached && same(&table, truth));
    CHECK(is_of_file(table.head)); // as soon as there is one
    as_unwind_table_free(&table);
    char *at = path + snprintf(path, sizeof path, "%s/", directory);
    for (int i = 0; i < image.id_size; i++)
        at += sprintf(at, "%02x", image.id[i]);
    snprintf(at, 16, ".unwind%d", AS_UNWIND_VERSION);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600 && (size_t)st.st_size == truth->bytes);
    take_table(&table, truth, true);
    const size_t places[] = {offsetof(struct as_unwind_head, magic),
                             offsetof(struct as_unwind_head, version),
                             offsetof(struct as_unwind_head, machine),
                             offsetof(struct as_unwind_head, id),
                             offsetof(struct as_unwind_head, text),
                             offsetof(struct as_unwind_head, text_size),
                             offsetof(struct as_unwind_head, source),
                             offsetof(struct as_unwind_head, rows),
                             offsetof(struct as_unwind_head, rules),
                             offsetof(struct as_unwind_head, blocks),
                             offsetof(struct as_unwind_head, checksum),
                             sizeof(struct as_unwind_head) + 20,
                             truth->bytes - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte((off_t)places[i]);
        take_table(&table, truth, false); // and is written anew
        take_table(&table, truth, true);
    }
    CHECK(truncate(path, (off_t)truth->bytes - 1) == 0);
    take_table(&table, truth, false);
    CHECK(chmod(path, 0622) == 0); // others may have written
    take_table(&table, truth, false);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
    CHECK(unlink(path) == 0 && symlink("/etc/passwd", path) == 0);
    take_table(&table, truth, false);
    CHECK(lstat(path, &st) == 0 && S_ISREG(st.st_mode));
    CHECK(chmod(directory, 0777) == 0);
    take_table(&table, truth, false);
    CHECK(chmod(directory, 0700) == 0);
    CHECK(unlink(path) == 0 && rmdir(directory) == 0); // nothing else was left
    take_table(&table, truth, false);
}

// Where a table may not be written the process goes on, with no signal and no part of a file.
static void test_limit(const struct as_unwind_table *truth)
{
    struct as_unwind_table table;
    struct rlimit before;
    sigset_t pending;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const struct rlimit small = {truth->bytes - 1, before.rlim_max};
    CHECK(mkdir(directory, 0700) == 0 && setrlimit(RLIMIT_FSIZE, &small) == 0);
    take_table(&table, truth, false);
    take_table(&table, truth, false);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0 && rmdir(directory) == 0); // nothing was left
}

// A file whose checksum is right and whose rows are not.
static void test_forged(const struct as_unwind_table *truth)
{
    struct as_unwind_table table;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (truth->bytes + page - 1) / page * page;
    uint8_t *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + room, page, PROT_NONE) == 0); // nobody reads beyond
    uint8_t *copy = memory + (room - truth->bytes) / sizeof(uint64_t) * sizeof(uint64_t);
    struct as_unwind_head *head = (void *)copy;
    memcpy(copy, truth->head, truth->bytes);
    CHECK(as_unwind_table_read(&table, copy, truth->bytes, &image));
    struct as_unwind_block *blocks = (void *)(copy + ((const uint8_t *)truth->blocks - (const uint8_t *)truth->head));
    struct as_unwind_row *rows = (void *)(copy + ((const uint8_t *)truth->rows - (const uint8_t *)truth->head));
    const size_t last_block = head->blocks - 1, last = head->rows - 1;
    CHECK(last_block > 3 && blocks[2].row > 8);
#define IS_READ(change, undo)                                                                                          \
    ((change), (head->checksum = as_unwind_table_sum(head, truth->bytes)), /* it is right each time */                 \
     (read = as_unwind_table_read(&table, copy, truth->bytes, &image)), (undo), read)
    bool read;
    CHECK(!IS_READ(rows[0].rule = (uint16_t)head->rules, rows[0].rule = truth->rows[0].rule) && !table.head);
    CHECK(!IS_READ(rows[7].rule = (uint16_t)head->rules, rows[7].rule = truth->rows[7].rule));
    CHECK(!IS_READ(rows[7].place = rows[6].place, rows[7].place = truth->rows[7].place));
    CHECK(!IS_READ(rows[blocks[2].row].place = 1, rows[blocks[2].row].place = 0));
    CHECK(!IS_READ(blocks[0].row = 1, blocks[0].row = 0));
    rows[1].place = 0;
    CHECK(!IS_READ(blocks[0].row = 1, blocks[0].row = 0));
    rows[1].place = truth->rows[1].place;
    CHECK(!IS_READ(blocks[2].row = blocks[3].row, blocks[2].row = truth->blocks[2].row));
    CHECK(!IS_READ(blocks[2].row = (uint32_t)last + 1, blocks[2].row = truth->blocks[2].row));
    CHECK(
        !IS_READ(blocks[last_block].row = (uint32_t)last + 1, blocks[last_block].row = truth->blocks[last_block].row));
    CHECK(!IS_READ(blocks[3].offset = blocks[2].offset, blocks[3].offset = truth->blocks[3].offset));
    CHECK(!IS_READ(blocks[last_block].row = (uint32_t)last + 1000,
                   blocks[last_block].row = truth->blocks[last_block].row));
    const uint32_t end = blocks[last_block].offset + rows[last].place;
    const uint32_t beyond = (uint32_t)head->text_size - end;
    CHECK(!IS_READ(blocks[last_block].offset += beyond, blocks[last_block].offset -= beyond));
    CHECK(IS_READ(blocks[last_block].offset += beyond - 1, blocks[last_block].offset -= beyond - 1));
    head->rows = UINT64_MAX / 6;
    CHECK(!as_unwind_table_read(&table, copy, truth->bytes, &image) && !table.head);
    head->rows = truth->head->rows;
    head->blocks = UINT64_MAX / 8;
    CHECK(!as_unwind_table_read(&table, copy, truth->bytes, &image) && !table.head);
    head->rows = head->blocks = 0;
    CHECK(!as_unwind_table_read(&table, copy, sizeof *head + head->rules * 8, &image));
    CHECK(!as_unwind_table_read(&table, copy, 8, &image));
    munmap(memory, room + page);
}

static void test_directory(void)
{
    char found[512];
    char home[128];
    char expected[256];
    snprintf(home, sizeof home, "%s", directory);
    CHECK(setenv("HOME", home, 1) == 0 && unsetenv("XDG_CACHE_HOME") == 0);
    CHECK(as_unwind_cache_directory(found, sizeof found));
    snprintf(expected, sizeof expected, "%s/.cache/arenascope", home);
    CHECK(strcmp(found, expected) == 0);
    CHECK(!as_unwind_cache_directory(found, 20)); // no room for it
    CHECK(chmod(expected, 0770) == 0 && !as_unwind_cache_directory(found, sizeof found));
    CHECK(rmdir(expected) == 0 && symlink(home, expected) == 0 && !as_unwind_cache_directory(found, sizeof found));
    CHECK(unlink(expected) == 0);
    snprintf(found, sizeof found, "%s/.cache", home);
    CHECK(setenv("XDG_CACHE_HOME", found, 1) == 0 && as_unwind_cache_directory(found, sizeof found));
    CHECK(strcmp(found, expected) == 0 && rmdir(found) == 0);
    CHECK(setenv("XDG_CACHE_HOME", "relative", 1) == 0 && setenv("HOME", "", 1) == 0);
    CHECK(!as_unwind_cache_directory(found, sizeof found));
    snprintf(found, sizeof found, "%s/.cache", home);
    CHECK(rmdir(found) == 0);
}

int main(void)
{
    struct as_unwind_table table;
    CHECK(dl_iterate_phdr(find_libc, NULL) == 1 && image.id_size > 0);
    test_rules();
    CHECK(as_unwind_table_make(&table, &image) && table.head->rows > 1000);
    CHECK(table.head->lost * 100 < table.head->rows);
    test_without_list(&table);
    test_damage();
    CHECK(mkdtemp(directory));
    test_directory();
    test_cache(&table);
    test_limit(&table);
    test_forged(&table);
    as_unwind_table_free(&table);
    return 0;
}
