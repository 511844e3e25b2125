// SPDX-License-Identifier: MIT
// Which malloc, and how it is laid out: the table and how evidence picks from it, ourselves as the target, and ELF files
// that lie.
#include "libc/layouts.h"
#include "libc/memory_evidence.h"
#include "support/check.h"
#include "support/file_libc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// DWARF is libdw's to read, and libdw's to keep safe.
#define OUR_SOURCES (1u << AS_LAYOUT_SYMTAB | 1u << AS_LAYOUT_RELOCATION | 1u << AS_LAYOUT_DECODE)

static void put_u64(uint8_t *bytes, int32_t offset, uint64_t value)
{
    memcpy(bytes + offset, &value, sizeof value);
}

static void put_u32(uint8_t *bytes, int32_t offset, uint32_t value)
{
    memcpy(bytes + offset, &value, sizeof value);
}

static uint32_t rows_like(unsigned row, size_t offset, size_t size)
{
    uint32_t rows = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        const char *other = (const char *)as_layout_row(i) + offset;
        rows |= (uint32_t)(memcmp((const char *)as_layout_row(row) + offset, other, size) == 0) << i;
    }
    return rows;
}

// main_arena as the linker leaves it leads to the rows with that struct, and to no other.
static void test_state_images(void)
{
    for (unsigned row = 0; row < AS_LAYOUT_ROWS; row++) {
        const struct as_state_layout *state = &as_layout_row(row)->state;
        uint8_t image[AS_STATE_BYTES] = {0};
        uint32_t expected = rows_like(row, offsetof(struct as_layout, state), sizeof *state);
        CHECK(state->next - state->bins == 254 * 8 + 16); // bins[254] and a binmap of 128 bits
        CHECK(state->max_system_mem + 8 == state->size && state->top < state->bins);
        if (state->attached_threads != AS_NONE)
            put_u64(image, state->attached_threads, 1);
        for (int relocated = 0; relocated < 2; relocated++) {
            put_u64(image, state->next, relocated ? 0x123450 : 0);
            CHECK(as_layout_rows_of_state_image(image, (size_t)state->size, 0x123450) == expected);
        }
        CHECK(as_layout_rows_of_state_image(image, (size_t)state->size, 0x123460) == 0);
        CHECK(as_layout_rows_of_state_image(image, (size_t)state->size - 1, 0x123450) == 0);
        put_u64(image, state->bins + 64, 1);
        CHECK(as_layout_rows_of_state_image(image, (size_t)state->size, 0x123450) == 0);
    }
}

// Only the size of mp_'s struct differs between some releases, so the rows must hold that one, and agree on every offset that the image
// shows.
static void test_par_images(void)
{
    for (unsigned row = 0; row < AS_LAYOUT_ROWS; row++) {
        const struct as_par_layout *par = &as_layout_row(row)->par;
        uint8_t image[256] = {0};
        bool has_tcache;
        put_u64(image, par->trim_threshold, 128 * 1024);
        put_u64(image, par->top_pad, 128 * 1024);
        put_u64(image, par->mmap_threshold, 128 * 1024);
        put_u64(image, par->arena_test, 8);
        put_u32(image, par->n_mmaps_max, 65536);
        if (par->tcache_bins != AS_NONE) {
            put_u64(image, par->tcache_bins, 64);
            put_u64(image, par->tcache_max_bytes, 1032);
            put_u64(image, par->tcache_count, 7);
        }
        uint32_t rows = as_layout_rows_of_par_image(image, (size_t)par->size, &has_tcache);
        CHECK(has_tcache == (par->tcache_bins != AS_NONE));
        CHECK(rows >> row & 1);
        for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++)
            CHECK(!(rows >> i & 1) || as_layout_row(i)->par.n_mmaps_max == par->n_mmaps_max);
        put_u32(image, par->n_mmaps_max, 65535);
        CHECK(as_layout_rows_of_par_image(image, (size_t)par->size, &has_tcache) == 0);
        CHECK(as_layout_rows_of_par_image(image, 79, &has_tcache) == 0);
    }
}

static void test_versions(void)
{
    static const struct {
        const char *version;
        const char *row;
    } known[] = {{"2.17", "up to 2.22"}, {"2.22.90", "up to 2.22"}, {"2.23", "2.23"},      {"2.25", "2.24-2.25"},
                 {"2.26", "2.26"},       {"2.28", "2.27-2.29"},     {"2.31", "2.30-2.31"}, {"2.34", "2.32-2.34"},
                 {"2.36", "2.35-2.41"},  {"2.42", "2.42"},          {"2.43", "2.43"},      {"2.44", "2.44"},
                 {"2.50", "2.44"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t rows = as_layout_rows_of_version(known[i].version);
        CHECK(__builtin_popcount(rows) == 1);
        CHECK(strcmp(as_layout_row((unsigned)__builtin_ctz(rows))->versions, known[i].row) == 0);
    }
    CHECK(as_layout_rows_of_version("") == AS_LAYOUT_ALL_ROWS);
    CHECK(as_layout_rows_of_version("2.16") == 0);
}

// The version is heard last: it decides between rows that fit alike, and is ignored where it contradicts a struct.
static void test_compose(void)
{
    struct as_layout layout;
    uint32_t state = as_layout_rows_with_next(2160);
    uint32_t par = as_layout_rows_of_version("2.31") | as_layout_rows_of_version("2.32");
    uint32_t version = as_layout_rows_of_version("2.31");
    as_layout_compose(&layout, state, par, true, &version, 1);
    CHECK(strcmp(layout.versions, "2.30-2.31") == 0 && !layout.heap.safe_linking);
    uint32_t hints[] = {as_layout_rows_with_linking(true), version};
    as_layout_compose(&layout, state, par, true, hints, 2);
    CHECK(strcmp(layout.versions, "2.32-2.34") == 0 && layout.heap.safe_linking);
    version = as_layout_rows_of_version("2.43");
    as_layout_compose(&layout, state, par, true, &version, 1);
    CHECK(layout.state.next == 2160 && layout.par.sbrk_base == 72);

    // --disable-tunables: an mp_ without huge pages beside a younger heap_info.
    version = as_layout_rows_of_version("2.36");
    as_layout_compose(&layout, state & version, as_layout_rows_of_version("2.34"), true, &version, 1);
    CHECK(layout.heap.heap_info_size == 48 && layout.par.sbrk_base == 72 && layout.par.hp_pagesize == AS_NONE);

    as_layout_compose(&layout, version, version, false, &version, 1);
    CHECK(layout.par.size == 104 && layout.par.tcache_count == AS_NONE && layout.heap.tcache_size == 0);
}

static bool same_layout(const struct as_layout *a, const struct as_layout *b)
{
    const struct as_heap_layout *x = &a->heap;
    const struct as_heap_layout *y = &b->heap;
    return memcmp(&a->state, &b->state, sizeof a->state) == 0 && memcmp(&a->par, &b->par, sizeof a->par) == 0 &&
           x->heap_info_size == y->heap_info_size && x->heap_pagesize == y->heap_pagesize &&
           x->tcache_size == y->tcache_size && x->tcache_bins == y->tcache_bins &&
           x->tcache_count_size == y->tcache_count_size && x->tcache_entries == y->tcache_entries &&
           x->tcache_counts_down == y->tcache_counts_down && x->safe_linking == y->safe_linking &&
           x->mmap_extra == y->mmap_extra;
}

static void find_ourselves(struct as_target *t, char *libc_path, size_t size)
{
    struct as_error err;
    struct as_malloc any;
    char why[200];
    void *volatile block = malloc(1); // malloc has been called, whatever of libc's has done so
    free(block);
    CHECK(as_malloc_find(t, AS_LAYOUT_ANY, &any, &err));
    CHECK(any.libcs.count == 1);
    const struct as_libc *libc = &any.libcs.items[0];
    CHECK(libc->proven && libc->mp != AS_UNKNOWN);
    snprintf(libc_path, size, "%s", as_strings_at(&t->strings, libc->path));
#ifdef __SANITIZE_ADDRESS__
    CHECK(any.kind == AS_MALLOC_ASAN && !libc->started);
    as_malloc_free(&any);
    return;
#endif
    CHECK(any.kind == AS_MALLOC_GLIBC && libc->started);
    // A stripped libc without debug files has neither names nor DWARF; the other three must all know it.
    for (enum as_layout_source source = AS_LAYOUT_RELOCATION; source <= AS_LAYOUT_SCAN; source++) {
        struct as_malloc one;
        CHECK(as_malloc_find(t, 1u << source, &one, &err));
        CHECK(one.libcs.count == 1 && one.libcs.items[0].source == source);
        CHECK(one.libcs.items[0].main_arena == libc->main_arena && one.libcs.items[0].mp == libc->mp);
        CHECK(same_layout(&one.libcs.items[0].layout, &libc->layout));
        as_malloc_free(&one);
    }
    struct as_malloc none;
    CHECK(as_malloc_find(t, 0, &none, &err) && none.kind == AS_MALLOC_GLIBC && none.libcs.count == 0);
    as_malloc_free(&none);

    // The proof is one: nothing nearby, and no other layout, passes for it.
    for (int64_t off = -64; off <= 64; off += 8) {
        struct as_libc moved = *libc;
        moved.main_arena += (uint64_t)off;
        CHECK(as_libc_prove(t, &moved, why, sizeof why) == (off == 0));
        CHECK((why[0] != '\0') == (off != 0));
        moved = *libc;
        moved.mp += (uint64_t)off;
        CHECK(as_libc_prove(t, &moved, why, sizeof why) == (off == 0));
    }
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        struct as_libc other = *libc;
        other.layout.state = as_layout_row(i)->state;
        bool same = memcmp(&other.layout.state, &libc->layout.state, sizeof other.layout.state) == 0;
        CHECK(as_libc_prove(t, &other, NULL, 0) == same);
    }
    struct as_libc nowhere = *libc;
    nowhere.main_arena = 4096;
    CHECK(!as_libc_prove(t, &nowhere, why, sizeof why));
    as_malloc_free(&any);
}

static uint64_t random_u64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int copy_of(const char *path, uint8_t **bytes, size_t *size)
{
    struct stat status;
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = memfd_create("libc", MFD_CLOEXEC);
    CHECK(from >= 0 && to >= 0 && fstat(from, &status) == 0);
    *size = (size_t)status.st_size;
    *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, from, 0);
    CHECK(*bytes != MAP_FAILED && write(to, *bytes, *size) == (ssize_t)*size);
    close(from);
    return to;
}

static bool read_libc(int fd, struct as_error *err)
{
    struct as_libc libc;
    bool found = as_libc_from_file(fd, OUR_SOURCES, "", &libc, err);
    CHECK(found == (libc.main_arena != AS_UNKNOWN));
    CHECK(found || err->text[0] != '\0');
    return found;
}

// Files that break off anywhere: never more than an error.
static void test_truncated(const char *path)
{
    uint8_t *bytes;
    size_t size;
    struct as_error err;
    int fd = copy_of(path, &bytes, &size);
    CHECK(read_libc(fd, &err));
    uint64_t random = 88172645463325252;
    for (size_t length = size; length > 0; length = (size_t)(random_u64(&random) % length)) {
        CHECK(ftruncate(fd, (off_t)length) == 0);
        read_libc(fd, &err);
    }
    for (size_t length = 0; length < 1024; length += 8) {
        CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)length) == 0 && pwrite(fd, bytes, length, 0) >= 0);
        // A build-id that is still there may lead to a debug file, whose names are as good as ever.
        CHECK(read_libc(fd, &err) || err.code == AS_BAD_INPUT || err.code == AS_NO_MALLOC);
    }
    munmap(bytes, size);
    close(fd);
}

static void expect_refusal(int fd, const Elf64_Ehdr *header, enum as_code code)
{
    struct as_error err;
    CHECK(pwrite(fd, header, sizeof *header, 0) == sizeof *header);
    CHECK(!read_libc(fd, &err) && err.code == code);
}

static void test_lying_headers(const char *path)
{
    uint8_t *bytes;
    size_t size;
    int fd = copy_of(path, &bytes, &size);
    Elf64_Ehdr honest;
    memcpy(&honest, bytes, sizeof honest);
    Elf64_Ehdr lie = honest;
    lie.e_ident[EI_CLASS] = ELFCLASS32;
    expect_refusal(fd, &lie, AS_UNSUPPORTED);
    lie = honest;
    lie.e_machine = EM_S390;
    expect_refusal(fd, &lie, AS_UNSUPPORTED);
    lie = honest;
    lie.e_ident[0] = 'E';
    expect_refusal(fd, &lie, AS_BAD_INPUT);
    lie = honest;
    lie.e_phoff = UINT64_MAX;
    expect_refusal(fd, &lie, AS_BAD_INPUT);
    lie = honest;
    lie.e_phoff = size - 8;
    expect_refusal(fd, &lie, AS_BAD_INPUT);
    lie = honest;
    lie.e_phnum = UINT16_MAX;
    expect_refusal(fd, &lie, AS_BAD_INPUT);
    lie = honest;
    lie.e_phentsize = 1;
    expect_refusal(fd, &lie, AS_BAD_INPUT);
    // Where sections are is of no matter to what finds the malloc.
    struct as_error err;
    lie = honest;
    lie.e_shoff = UINT64_MAX - 64;
    lie.e_shnum = UINT16_MAX;
    CHECK(pwrite(fd, &lie, sizeof lie, 0) == sizeof lie && read_libc(fd, &err));
    // A segment that wraps around the end of the address space.
    Elf64_Phdr segment;
    CHECK(pwrite(fd, &honest, sizeof honest, 0) == sizeof honest);
    memcpy(&segment, bytes + honest.e_phoff, sizeof segment);
    segment.p_type = PT_LOAD;
    segment.p_memsz = UINT64_MAX;
    CHECK(pwrite(fd, &segment, sizeof segment, (off_t)honest.e_phoff) == sizeof segment);
    CHECK(!read_libc(fd, &err) && err.code == AS_BAD_INPUT);
    munmap(bytes, size);
    close(fd);
}

// Extreme values at random places of the tables that are read: only bounded work and errors come of it.
static void test_mutated(const char *path, unsigned rounds)
{
    static const uint64_t extremes[] = {0, 1, 7, 0x7fffffff, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 4095};
    uint8_t *bytes;
    size_t size;
    struct as_error err;
    struct as_elf elf;
    int fd = copy_of(path, &bytes, &size);
    CHECK(as_elf_open(&elf, fd, &err));
    struct {
        uint64_t start, length;
    } areas[] = {{0, 1024},
                 {0, 0},
                 {elf.gnu_hash ? elf.gnu_hash : elf.hash, 8192},
                 {elf.symtab, 65536},
                 {elf.rela, elf.rela_size},
                 {elf.relr, elf.relr_size},
                 {elf.section_offset, elf.section_count * sizeof(Elf64_Shdr)}};
    // .dynamic lies in the data, whose offset in the file is not its address.
    const struct as_elf_load *load = as_elf_load_at(&elf, elf.dynamic, elf.dynamic_size);
    CHECK(load);
    areas[1].start = load->offset + (elf.dynamic - load->vaddr);
    areas[1].length = elf.dynamic_size;
    uint64_t random = 2463534242;
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t touched[4];
        for (unsigned i = 0; i < 4; i++) {
            unsigned area = (unsigned)(random_u64(&random) % (sizeof areas / sizeof *areas));
            uint64_t value = random_u64(&random) % 2 ? extremes[random_u64(&random) % 8] : random_u64(&random);
            uint64_t length = areas[area].length;
            touched[i] = length >= 8 ? areas[area].start + random_u64(&random) % (length / 4) * 4 : 0;
            if (touched[i] > size - 8)
                touched[i] = 0;
            CHECK(pwrite(fd, &value, 4 + random_u64(&random) % 2 * 4, (off_t)touched[i]) > 0);
        }
        read_libc(fd, &err);
        for (unsigned i = 0; i < 4; i++)
            CHECK(pwrite(fd, bytes + touched[i], 8, (off_t)touched[i]) == 8);
    }
    CHECK(read_libc(fd, &err)); // all was put back
    munmap(bytes, size);
    close(fd);
}

static void test_not_files(void)
{
    struct as_error err;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    CHECK(!read_libc(pipes[0], &err) && err.code == AS_BAD_INPUT);
    CHECK(!read_libc(-1, &err));
    int folder = open("/", O_RDONLY | O_DIRECTORY);
    CHECK(!read_libc(folder, &err) && err.code == AS_BAD_INPUT);
    // A good ELF file that holds no malloc.
    int self = open("/proc/self/exe", O_RDONLY);
    CHECK(!read_libc(self, &err) && err.code == AS_NO_MALLOC);
    close(pipes[0]);
    close(pipes[1]);
    close(folder);
    close(self);
}

int main(int count, char **arguments)
{
    // More rounds on request: under a sanitizer, say.
    unsigned rounds = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 1500;
    char libc_path[512] = "";
    test_state_images();
    test_par_images();
    test_versions();
    test_compose();
    for (unsigned i = 0; i < 200; i++)
        free(malloc(24 + i * 32)); // something for the structural evidence to see
    struct as_error err;
    struct as_target *t = as_target_open_self(true, &err);
    CHECK(t);
    find_ourselves(t, libc_path, sizeof libc_path);
    as_target_close(t);
    test_not_files();
    test_truncated(libc_path);
    test_lying_headers(libc_path);
    test_mutated(libc_path, rounds);
    return 0;
}
