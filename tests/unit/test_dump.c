// SPDX-License-Identifier: MIT
// The dump file: what is written is what is read; what lies about itself is refused, or shown without harm.
#include "cli/summary/summary.h"
#include "config.h"
#include "dump/dump.h"
#include "dump/sections.h"
#include "libc/libc.h"
#include "model/chunks.h"
#include "png/png.h"
#include "support/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 6, HEAPS = 4, PARTS = 2 };

static uint32_t chunk(enum as_chunk_class kind, uint64_t size)
{
    return (uint32_t)kind << AS_CHUNK_CLASS_SHIFT | (uint32_t)(size / AS_UNIT);
}

static void add_heap(struct as_store *s, uint32_t arena, enum as_heap_kind kind, uint64_t start, uint64_t bytes)
{
    struct as_heap_record *heap = as_vec_add(&s->heaps, NULL);
    heap->start = start;
    heap->end = heap->protected_end = start + bytes;
    heap->arena = arena;
    heap->kind = kind;
    heap->first_page = s->pages.count;
    heap->page_count = (heap->end + PAGE - 1) / PAGE - start / PAGE;
    for (uint64_t i = 0; i < heap->page_count; i++) {
        struct as_page_record *page = as_vec_add(&s->pages, NULL);
        page->in_use = (uint16_t)(16 * i);
        page->binned = (uint16_t)(256 - 16 * i);
        page->state = (uint8_t)(AS_PAGE_USED + (heap->first_page + i) % AS_PAGE_UNKNOWN);
        page->residency = i % 3 == 2 ? AS_RES_SWAPPED : i % 3 ? 0 : AS_RES_PRESENT;
    }
}

// A small process with two arenas, as a snapshot would find it. Its chunk records go to `fd`.
static struct as_store synthetic(int fd)
{
    struct as_store s = {0};
    s.meta = (struct as_meta_record){
        .target_kind = AS_TARGET_PROCESS,
        .arch = AS_ARCH_X86_64,
        .page_size = PAGE,
        .pid = 4711,
        .thread_count = 2,
        .malloc_kind = AS_MALLOC_GLIBC,
        .mode = AS_MODE_FREEZE,
        .flags = AS_META_RESIDENCY_KNOWN | AS_META_HAS_CHUNKS,
        .time_ns = 1790000000123456789,
        .pause_ns = 1234567,
        .read_ns = 7654321,
        .rss = 1 << 20,
        .swap = AS_UNKNOWN,
        .comm = {'s', 'i', 'x', 't', 'e', 'e', 'n', 033, '"', (char)0xff, '\\', '-', 'l', 'o', 'n', 'g'}};
    s.meta.cmdline = as_strings_add(&s.strings, "program --with \033[31m\xe2\x80\xae evil \xff arguments", 99);
    s.totals.ledger.in_use = 12345;
    s.totals.ledger.releasable = AS_UNKNOWN;
    s.totals.chunks.top = (struct as_tally){2, 4096};
    struct as_malloc_record *malloc_record = as_vec_add(&s.mallocs, NULL);
    malloc_record->version = as_strings_add(&s.strings, "2.36", 9);
    malloc_record->layout_source = AS_LAYOUT_RELOCATION;
    malloc_record->mp = AS_UNKNOWN;
    for (uint32_t i = 0; i < 2; i++) {
        struct as_arena_record *arena = as_vec_add(&s.arenas, NULL);
        arena->address = 0x7f0000000030 + i * 0x4000000ull;
        arena->flags = i ? 0 : AS_ARENA_MAIN;
        arena->first_heap = i;
        arena->heap_count = 1 + i;
        arena->ledger.stranded = i;
        struct as_thread_record *thread = as_vec_add(&s.threads, NULL);
        *thread = (struct as_thread_record){.tid = 4711 + i, .arena = 1 - i, .name = "worker", .tcache = AS_UNKNOWN};
        struct as_size_record *size = as_vec_add(&s.sizes, NULL);
        *size =
            (struct as_size_record){.chunk_size = 32 + 16 * i, .in_use = 9, .pin_count = 3, .pin_stranded = 100 * i};
    }
    add_heap(&s, 0, AS_HEAP_BRK, 0x555500000000, 4 * PAGE);
    add_heap(&s, 1, AS_HEAP_THREAD, 0x7f0000000000, 2 * PAGE);
    add_heap(&s, 1, AS_HEAP_THREAD, 0x7f0004000000, 2 * PAGE);
    add_heap(&s, UINT32_MAX, AS_HEAP_MMAPPED, 0x7e0000000000, 3 * PAGE);
    struct as_open_file_record *file = as_vec_add(&s.open_files, NULL);
    *file = (struct as_open_file_record){
        .name = as_strings_add(&s.strings, "/memfd:frames (deleted)", 4096), .descriptors = 2, .bytes = 4096};
    struct as_mapping_record *mapping = as_vec_add(&s.mappings, NULL);
    *mapping = (struct as_mapping_record){.start = PAGE, .end = 2 * PAGE, .kind = AS_MAP_ANON, .rss = PAGE};
    struct as_warning_record *warning = as_vec_add(&s.warnings, NULL);
    *warning = (struct as_warning_record){as_strings_add(&s.strings, "something is \"odd\"", 99), AS_WARN_CORRUPT, 1, 2,
                                          0x7f0004000010};
    struct as_ruby_page_record *ruby = as_vec_add(&s.ruby, NULL);
    *ruby = (struct as_ruby_page_record){.address = 0x7e0000000000, .size = PAGE, .heap = UINT32_MAX};
    *(struct as_runtime_record *)as_vec_add(&s.runtimes, NULL) = (struct as_runtime_record){
        .kind = AS_RUNTIME_CPYTHON, .state = AS_REGIONS_FOUND, .row = AS_ROW_python_arenas, .region_size = 4 * PAGE};
    *(struct as_region_record *)as_vec_add(&s.regions, NULL) = (struct as_region_record){
        .address = 0x7d0000000000, .size = 4 * PAGE, .in_use = PAGE, .free = PAGE, .empty = PAGE, .heap = UINT32_MAX};
    *(struct as_size_class_record *)as_vec_add(&s.size_classes, NULL) =
        (struct as_size_class_record){.size = 32, .pools = 2, .in_use = 128, .free = 128};
    *(struct as_type_record *)as_vec_add(&s.types, NULL) =
        (struct as_type_record){.address = 0x7d0000000400, .count = 3, .tracked = 2, .bytes = 96};
    *(struct as_class_record *)as_vec_add(&s.classes, NULL) =
        (struct as_class_record){.kind = AS_CLASS_NAMED, .count = 3, .not_marked = 1, .bytes = 96};
    *(struct as_runtime_page_record *)as_vec_add(&s.runtime_pages, NULL) = (struct as_runtime_page_record){
        .address = 0x7d0000000000, .in_use = 256, .free = 256, .kind = AS_RUNTIME_CPYTHON};
    *(struct as_space_record *)as_vec_add(&s.spaces, NULL) =
        (struct as_space_record){.name = as_strings_add(&s.strings, "eden", 99), .used = PAGE, .committed = 2 * PAGE};
    *(struct as_fill_record *)as_vec_add(&s.page_fill, NULL) =
        (struct as_fill_record){.chunks = 2, .eighths = 3, .pages = 1, .in_use = 1536, .stranded = 2560};
    *(struct as_sharer_record *)as_vec_add(&s.sharers, NULL) =
        (struct as_sharer_record){.chunk_size = 768, .places = 2, .stranded = 2560};
    *(struct as_graph_record *)as_vec_add(&s.graph, NULL) = (struct as_graph_record){.chunks = 4, .bytes = 4 * PAGE};
    *(struct as_graph_type_record *)as_vec_add(&s.graph_types, NULL) = (struct as_graph_type_record){
        .name = as_strings_add(&s.strings, "Evil<\033[31m>", 99), .count = 4, .bytes = 4 * PAGE};
    *(struct as_graph_owner_record *)as_vec_add(&s.graph_owners, NULL) = (struct as_graph_owner_record){
        .kind = as_strings_add(&s.strings, "variable", 99), .name = as_strings_add(&s.strings, "evil\xff", 99)};
    *(struct as_graph_branch_record *)as_vec_add(&s.graph_branches, NULL) =
        (struct as_graph_branch_record){.type = UINT32_MAX, .retained = 4 * PAGE};
    *(struct as_graph_branch_record *)as_vec_add(&s.graph_branches, NULL) =
        (struct as_graph_branch_record){.depth = 1, .owner = UINT32_MAX, .count = 4, .retained = 4 * PAGE};
    *(struct as_graph_leak_record *)as_vec_add(&s.graph_leaks, NULL) =
        (struct as_graph_leak_record){.size = PAGE, .direct = {1, PAGE}, .example = 0x555500000010};
    *(struct as_graph_page_user_record *)as_vec_add(&s.graph_page_users, NULL) = (struct as_graph_page_user_record){
        .leak = UINT32_MAX, .count = 4, .bytes = 4 * PAGE, .pinned = {.pages = 1, .stranded = 2560}};
    *(struct as_graph_place_record *)as_vec_add(&s.graph_places, NULL) = (struct as_graph_place_record){.page = 1};
    *(struct as_graph_leading_record *)as_vec_add(&s.graph_leading, NULL) =
        (struct as_graph_leading_record){.owners = 2, .bytes = PAGE};
    *(struct as_profile_record *)as_vec_add(&s.profile, NULL) = (struct as_profile_record){
        .page_rate = 64, .known_count = 4, .known_bytes = 4 * PAGE, .hooks = AS_HOOKS_IN_SLOTS};
    *(struct as_profile_module_record *)as_vec_add(&s.profile_modules, NULL) =
        (struct as_profile_module_record){.path = as_strings_add(&s.strings, "/evil\033[31m", 99)};
    *(struct as_profile_frame_record *)as_vec_add(&s.profile_frames, NULL) =
        (struct as_profile_frame_record){.offset = PAGE, .line = 1};
    *(struct as_profile_line_record *)as_vec_add(&s.profile_lines, NULL) = (struct as_profile_line_record){.line = 7};
    *(struct as_profile_stack_record *)as_vec_add(&s.profile_stacks, NULL) =
        (struct as_profile_stack_record){.caller = UINT32_MAX};
    *(struct as_profile_stack_record *)as_vec_add(&s.profile_stacks, NULL) = (struct as_profile_stack_record){0};
    *(struct as_profile_site_record *)as_vec_add(&s.profile_sites, NULL) =
        (struct as_profile_site_record){.stack = 1, .count = 4, .bytes = 4 * PAGE};
    *as_vec_add(&s.summary, NULL) = '{';
    *(struct as_profile_pin_record *)as_vec_add(&s.profile_pins, NULL) = (struct as_profile_pin_record){.pinned = 1};
    *(struct as_profile_size_record *)as_vec_add(&s.profile_sizes, NULL) = (struct as_profile_size_record){.size = 32};
    *(struct as_profile_type_record *)as_vec_add(&s.profile_types, NULL) =
        (struct as_profile_type_record){.after_count = 1, .after_bytes = 32};
    *(struct as_profile_place_record *)as_vec_add(&s.profile_places, NULL) = (struct as_profile_place_record){0};
    *(struct as_profile_thread_record *)as_vec_add(&s.profile_threads, NULL) =
        (struct as_profile_thread_record){.tid = 7, .flags = AS_PROFILE_THREAD_HERE};
    *(struct as_profile_share_record *)as_vec_add(&s.profile_shares, NULL) =
        (struct as_profile_share_record){.count = 4, .bytes = 4 * PAGE};
    uint32_t chunks[HEAPS * 3];
    for (int i = 0; i < HEAPS; i++) {
        struct as_heap_record *heap = &s.heaps.items[i];
        uint64_t bytes = heap->end - heap->start;
        heap->first_chunk = 3 * (uint64_t)i;
        heap->chunk_count = 3;
        chunks[3 * i] = chunk(AS_CHUNK_METADATA, 48);
        chunks[3 * i + 1] = chunk(AS_CHUNK_IN_USE, PAGE) | (i == 3 ? AS_CHUNK_MORE : 0);
        chunks[3 * i + 2] = chunk(i == 3 ? AS_CHUNK_IN_USE : AS_CHUNK_TOP, bytes - PAGE - 48);
    }
    s.chunk_count = HEAPS * 3;
    CHECK(pwrite(fd, chunks, sizeof chunks, AS_DUMP_DATA_START) == sizeof chunks);
    return s;
}

// Writes a dump of the synthetic process. `path` NULL: in memory. The writer is left open.
static struct as_store write_dump(struct as_dump_writer *w, const char *path)
{
    struct as_error err = {0};
    if (!as_dump_begin(w, path, &err))
        fprintf(stderr, "%s\n", err.text);
    CHECK(w->file.fd >= 0);
    struct as_store s = synthetic(w->file.fd);
    CHECK(as_dump_finish(w, &s, &err));
    return s;
}

static void test_round_trip(void)
{
    struct as_dump_writer w;
    struct as_store s = write_dump(&w, NULL);
    struct as_view expected = as_store_view(&s);
    struct as_dump_file f;
    struct as_error err = {0};
    CHECK(as_dump_open_fd(&f, w.file.fd, "memory", &err));
    for (int id = 0; id < AS_SECTION_chunks; id++) {
        const struct as_section_kind *kind = &as_section_kinds[id];
        uint64_t count = 1, count_expected = 1;
        const void *records, *records_expected;
        if (kind->count != AS_NO_COUNT) {
            memcpy(&count, (char *)&f.view + kind->count, sizeof count);
            memcpy(&count_expected, (char *)&expected + kind->count, sizeof count);
        }
        memcpy(&records, (char *)&f.view + kind->pointer, sizeof records);
        memcpy(&records_expected, (char *)&expected + kind->pointer, sizeof records);
        CHECK(count == count_expected && count > 0);
        CHECK(memcmp(records, records_expected, count * kind->record_size) == 0);
    }

    // The chunks of the last heap: metadata, then one chunk in two records.
    struct as_chunk_cursor cursor = as_chunks_of(&f.view, &f.view.heaps[3]);
    struct as_chunk_entry entry;
    CHECK(as_chunk_next(&cursor, &entry) && entry.kind == AS_CHUNK_METADATA && entry.size == 48);
    CHECK(as_chunk_next(&cursor, &entry) && entry.kind == AS_CHUNK_IN_USE && entry.size == 3 * PAGE - 48);
    CHECK(entry.address == 0x7e0000000030);
    CHECK(!as_chunk_next(&cursor, &entry) && !cursor.torn);
    as_dump_file_close(&f);
    as_dump_close(&w);
    as_store_free(&s);
}

static void expect_write_error(const char *path, const char *reason)
{
    struct as_dump_writer w;
    struct as_error err = {0};
    CHECK(!as_dump_begin(&w, path, &err));
    CHECK(err.code == AS_IO && strstr(err.text, reason));
    as_dump_close(&w);
}

static int entries(const char *directory)
{
    char command[200];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", directory);
    FILE *pipe = popen(command, "r");
    int count = -1;
    CHECK(pipe && fscanf(pipe, "%d", &count) == 1);
    pclose(pipe);
    return count;
}

static void test_files(const char *directory)
{
    char path[200], link[200];
    struct stat st;
    struct as_error err = {0};
    snprintf(path, sizeof path, "%s/a.dump", directory);
    snprintf(link, sizeof link, "%s/link", directory);

    // Written twice: the second replaces the first, whatever mode that had.
    for (int i = 0; i < 2; i++) {
        struct as_dump_writer w;
        struct as_store s = write_dump(&w, path);
        as_dump_close(&w);
        as_store_free(&s);
        CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
        CHECK(chmod(path, 0644) == 0);
    }
    CHECK(entries(directory) == 1);

    // Not finished: nothing is left, and what was there stays.
    struct as_dump_writer w;
    CHECK(as_dump_begin(&w, path, &err));
    CHECK(as_output_write(&w.file, "x", 1, AS_DUMP_DATA_START, &err));
    as_dump_close(&w);
    as_dump_close(&w);
    CHECK(entries(directory) == 1);
    struct as_dump_file f;
    CHECK(as_dump_open(&f, path, &err));
    as_dump_file_close(&f);

    // A symlink that appears while we write is not followed either.
    CHECK(as_dump_begin(&w, link, &err));
    struct as_store s = synthetic(w.file.fd);
    CHECK(symlink("a.dump", link) == 0);
    CHECK(!as_dump_finish(&w, &s, &err) && err.code == AS_IO && strstr(err.text, "symbolic link"));
    as_dump_close(&w);
    as_store_free(&s);
    CHECK(entries(directory) == 2);

    expect_write_error(link, "symbolic link");
    expect_write_error(directory, "directory");
    expect_write_error("/dev/null", "special file");
    expect_write_error("/nonexistent/x", "/nonexistent/");
    expect_write_error("", "does not name a file");
    CHECK(unlink(link) == 0 && unlink(path) == 0);
}

static void expect_bad(const void *bytes, uint64_t size, const char *reason)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    struct as_dump_file f;
    struct as_error err = {0};
    CHECK(!as_dump_open_fd(&f, fd, "bad.dump", &err));
    if (err.code != AS_BAD_INPUT || !strstr(err.text, reason)) {
        fprintf(stderr, "\"%s\" does not say \"%s\"\n", err.text, reason);
        abort();
    }
    close(fd);
}

// All that can be made of a view. Its output goes to /dev/null; the pictures to `directory` where it is open.
static void render(const struct as_view *v, FILE *null, int directory)
{
    struct as_error err = {0};
    struct as_table_style style = {.columns = 80, .colour = true};
    CHECK(as_summary_json(null, v, true, &err));
    CHECK(as_summary_table(null, v, &style, &err));
    for (uint64_t i = 0; i < v->heap_count; i++) {
        struct as_chunk_cursor cursor = as_chunks_of(v, &v->heaps[i]);
        struct as_chunk_entry entry;
        while (as_chunk_next(&cursor, &entry))
            CHECK(entry.address >= v->heaps[i].start && entry.size <= v->heaps[i].end - entry.address);
    }
#ifdef HAVE_LIBPNG
    if (directory >= 0) {
        struct as_output file = AS_OUTPUT_CLOSED;
        struct as_png_options options = {.directory = directory, .scale = 2, .file = &file};
        struct as_png_result result;
        CHECK(as_png_draw(v, &options, &result, &err) || err.code == AS_BAD_INPUT);
    }
#else
    (void)directory;
#endif
}

// Opens what stands in `fd` now; what opens is rendered. True when it opened.
static bool survives(int fd, FILE *null, int directory)
{
    struct as_dump_file f;
    struct as_error err = {0};
    if (!as_dump_open_fd(&f, fd, "fuzz.dump", &err)) {
        CHECK(err.code == AS_BAD_INPUT || err.code == AS_NO_MEMORY);
        return false;
    }
    render(&f.view, null, directory);
    as_dump_file_close(&f);
    return true;
}

static void test_refusals(const uint8_t *dump, uint64_t size)
{
    uint8_t *copy = malloc(size + 1);
    struct as_dump_header *header = (struct as_dump_header *)copy;
#define RESET() memcpy(copy, dump, size)
    RESET();
    expect_bad(copy, 0, "only 0 bytes");
    expect_bad(copy, size - 7, "truncated: 7 of its");
    copy[size] = 0;
    expect_bad(copy, size + 1, "does not fit the file");
    header->major = 2;
    expect_bad(copy, size, "newer arenascope (format 2.");
    RESET();
    header->magic[7] = '\r';
    expect_bad(copy, size, "text mode");
    memset(copy, 0, 8);
    expect_bad(copy, size, "not a dump");
    RESET();
    header->section_count -= 1; // one that must be there is missing
    expect_bad(copy, size, "has no section");
    RESET();
    struct as_dump_section *table = (struct as_dump_section *)(copy + header->table_offset);
    table[1] = table[2];
    expect_bad(copy, size, "is there twice");
    RESET();
    table[0].record_size = 8; // the chunks
    expect_bad(copy, size, "a size that no version has");
#undef RESET
    free(copy);
}

// A section that this version does not know is skipped.
static void test_unknown_section(const uint8_t *dump, uint64_t size, int fd)
{
    const struct as_dump_header *header = (const struct as_dump_header *)dump;
    struct as_dump_header larger = *header;
    struct as_dump_section future = {.name = "future", .offset = 7, .count = 9, .record_size = 3};
    larger.minor = 9;
    larger.section_count++;
    larger.file_size += sizeof future;
    CHECK(header->table_offset + header->section_count * sizeof future == size);
    CHECK(pwrite(fd, &larger, sizeof larger, 0) == sizeof larger);
    CHECK(pwrite(fd, &future, sizeof future, (off_t)size) == sizeof future);
    struct as_dump_file f;
    struct as_error err = {0};
    CHECK(as_dump_open_fd(&f, fd, "future.dump", &err));
    as_dump_file_close(&f);
    CHECK(ftruncate(fd, (off_t)size) == 0 && pwrite(fd, dump, size, 0) == (ssize_t)size);
}

// Each 64-bit field of the file in turn takes values that hurt, or (part 1) what lies between two of them, 32 bits.
static void fuzz_fields(const uint8_t *dump, uint64_t size, int fd, FILE *null, int directory, uint64_t part)
{
    static const uint64_t nasty[] = {0,          1,          0x7fffffff, 0x80000000,
                                     0xffffffff, 1ull << 63, UINT64_MAX, UINT64_MAX - 4095};
    uint64_t opened = 0, refused = 0;
    for (uint64_t at = 0; at + 8 <= size; at += at == 40 ? AS_DUMP_DATA_START - 40 : 4) {
        for (size_t i = 0; at / 4 % PARTS == part && i < sizeof nasty / sizeof nasty[0]; i++) {
            size_t width = at % 8 == 0 ? 8 : 4;
            CHECK(pwrite(fd, &nasty[i], width, (off_t)at) == (ssize_t)width);
            // A picture is some work: drawn where the value may matter to it.
            *(survives(fd, null, i % 5 == at / 4 % 5 ? directory : -1) ? &opened : &refused) += 1;
            CHECK(pwrite(fd, dump + at, width, (off_t)at) == (ssize_t)width);
        }
    }
    printf("fields: %" PRIu64 " opened, %" PRIu64 " refused\n", opened, refused);
    CHECK(opened > 100 && refused > 100);
}

static void fuzz_bytes(const uint8_t *dump, uint64_t size, int fd, FILE *null, int directory)
{
    uint64_t seed = 20261120, opened = 0;
    for (int round = 0; round < 2000; round++) {
        uint64_t at[3];
        for (int i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at[i] = (seed >> 33) % (size - AS_DUMP_DATA_START + 40);
            at[i] = at[i] < 40 ? at[i] : at[i] - 40 + AS_DUMP_DATA_START;
            uint8_t byte = (uint8_t)(dump[at[i]] ^ (1 << (seed >> 61)));
            CHECK(pwrite(fd, &byte, 1, (off_t)at[i]) == 1);
        }
        opened += survives(fd, null, round % 10 == 0 ? directory : -1);
        for (int i = 0; i < 3; i++)
            CHECK(pwrite(fd, dump + at[i], 1, (off_t)at[i]) == 1);
    }
    printf("bytes: %" PRIu64 " of 2000 opened\n", opened);
    CHECK(opened > 0 && opened < 2000);
}

static void test_truncated(const uint8_t *dump, uint64_t size)
{
    const struct as_dump_header *header = (const struct as_dump_header *)dump;
    const struct as_dump_section *table = (const struct as_dump_section *)(dump + header->table_offset);
    for (uint32_t i = 0; i < header->section_count; i++) {
        expect_bad(dump, table[i].offset, "missing");
        expect_bad(dump, table[i].offset + 1, "missing");
    }
    expect_bad(dump, sizeof *header, "missing");
    expect_bad(dump, header->table_offset, "missing");
    expect_bad(dump, size - 1, "truncated: 1 of");
}

// With a number: this part of the fields alone, as all of them take a minute.
int main(int count, char **words)
{
    char directory[] = "/dev/shm/arenascope-test-XXXXXX", pictures[64];
    CHECK(mkdtemp(directory));
    snprintf(pictures, sizeof pictures, "%s/pictures", directory);
    if (count == 1) {
        test_round_trip();
        test_files(directory);
    }
    CHECK(mkdir(pictures, 0700) == 0);
    int pictures_fd = open(pictures, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FILE *null = fopen("/dev/null", "w");
    CHECK(pictures_fd >= 0 && null);
    struct as_dump_writer w;
    struct as_store s = write_dump(&w, NULL);
    uint64_t size = (uint64_t)lseek(w.file.fd, 0, SEEK_END);
    uint8_t *dump = malloc(size);
    CHECK(dump && pread(w.file.fd, dump, size, 0) == (ssize_t)size);
    CHECK(survives(w.file.fd, null, pictures_fd));
    if (count > 1) {
        fuzz_fields(dump, size, w.file.fd, null, pictures_fd, strtoull(words[1], NULL, 10));
    } else {
        test_refusals(dump, size);
        test_truncated(dump, size);
        test_unknown_section(dump, size, w.file.fd);
        fuzz_bytes(dump, size, w.file.fd, null, pictures_fd);
    }
    CHECK(survives(w.file.fd, null, -1));
    free(dump);
    as_dump_close(&w);
    as_store_free(&s);
    fclose(null);
    close(pictures_fd);
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    CHECK(system(command) == 0);
    puts("ok");
    return 0;
}
