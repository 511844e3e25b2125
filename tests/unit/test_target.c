// SPDX-License-Identifier: MIT
// A live process: its mappings, pages, bytes, files, and what is refused. Each child knows what it has in memory.
#include "target_util.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { NOBODY = 65534, HUGE = 2 << 20 };
enum { WAY = 12 << 20, CUT = 9 << 20 };
enum { AREA_PAGES = 64, WRITTEN = 16, READ_ONLY = 24, RELEASED = 32, ZEROED = 40, GUARD_FROM = 50, GUARD_TO = 54 };

struct child {
    volatile int ready;
    pid_t pid;
    size_t page;
    char *area;    // AREA_PAGES as the enum says, between two pages of PROT_NONE
    bool guards;   // pages GUARD_FROM .. GUARD_TO - 1 of it have guard markers (Linux 6.13)
    char *forked;  // 8 pages written before a fork and so shared, 8 that were only read, 8 written
    char *zeros;   // 8 pages that were only read: nothing is counted of the mapping
    char *named;   // 2 pages written, with a name if the kernel has them
    char *huge;    // 4 MiB written, as huge pages if the kernel likes
    uint64_t *way; // WAY bytes, each word its index; but the three pages behind CUT cannot be read
    char *nothing; // 2 MiB read only, with MADV_HUGEPAGE: the huge zero page perhaps
    char *shared;  // 4 pages shared anonymous, 3 written
    char *memfd;   // 4 pages of a memfd, 2 written
    char *deleted; // a file that is deleted
    char *kept;    // a file that is not, with a newline in its name
    char *stale;   // a file whose name another one took
    char directory[64];
};

static char *map_between_guards(size_t size, size_t page)
{
    char *area = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area + page, size, PROT_READ | PROT_WRITE) == 0);
    return area + page;
}

static void read_page(const char *at)
{
    (void)*(const volatile char *)at;
}

static char *map_file(const char *directory, const char *name, const char *text, size_t page)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    char *bytes = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(bytes != MAP_FAILED);
    close(fd);
    read_page(bytes);
    return bytes;
}

static char *map_huge(size_t size)
{
    char *bytes = mmap(NULL, size + 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(bytes != MAP_FAILED);
    bytes = (char *)(((uintptr_t)bytes + HUGE) / HUGE * HUGE);
    CHECK(mprotect(bytes, size, PROT_READ | PROT_WRITE) == 0);
    madvise(bytes, size, MADV_HUGEPAGE);
    return bytes;
}

static void fill_child(struct child *c)
{
    size_t page = c->page;
    c->area = map_between_guards(AREA_PAGES * page, page);
    for (size_t i = 0; i < AREA_PAGES; ++i) {
        char *at = c->area + i * page;
        if (i < WRITTEN || (i >= READ_ONLY && i < RELEASED))
            memset(at, (int)i + 1, page);
        else if (i < READ_ONLY)
            read_page(at);
        else if (i == ZEROED)
            memset(at, 0, page);
    }
    madvise(c->area + READ_ONLY * page, (RELEASED - READ_ONLY) * page, MADV_DONTNEED);
    c->guards = madvise(c->area + GUARD_FROM * page, (GUARD_TO - GUARD_FROM) * page, 102) == 0;
    for (size_t i = 8; i < 24; ++i) {
        if (i < 16)
            read_page(c->forked + i * page);
        else
            c->forked[i * page] = 3;
    }
    c->zeros = map_between_guards(8 * page, page);
    for (size_t i = 0; i < 8; ++i)
        read_page(c->zeros + i * page);
    c->named = map_between_guards(2 * page, page);
    prctl(0x53564d41, 0, c->named, 2 * page, "known");
    memset(c->named, 7, 2 * page);
    c->huge = map_huge(2 * HUGE);
    memset(c->huge, 9, 2 * HUGE);
    c->way = (uint64_t *)map_between_guards(WAY, page);
    for (size_t i = 0; i < WAY / sizeof *c->way; ++i)
        c->way[i] = i;
    mprotect((char *)c->way + CUT, 3 * page, PROT_NONE);
    c->nothing = map_huge(HUGE);
    for (size_t i = 0; i < HUGE; i += page)
        read_page(c->nothing + i);
    c->shared = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(c->shared, 1, 3 * page);
    int fd = memfd_create("known", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)(4 * page)) == 0);
    c->memfd = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(c->shared != MAP_FAILED && c->memfd != MAP_FAILED);
    memset(c->memfd, 1, 2 * page);
    snprintf(c->directory, sizeof c->directory, "/tmp/test_target.XXXXXX");
    CHECK(mkdtemp(c->directory));
    c->deleted = map_file(c->directory, "deleted", "the deleted one", page);
    c->kept = map_file(c->directory, "with\nnewline", "the kept one", page);
    c->stale = map_file(c->directory, "stale", "the first one", page);
    char path[128];
    snprintf(path, sizeof path, "%s/deleted", c->directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/stale", c->directory);
    unlink(path);
    munmap(map_file(c->directory, "stale", "another one", page), page);
}

static void remove_files(const struct child *c)
{
    char path[128];
    snprintf(path, sizeof path, "%s/stale", c->directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/with\nnewline", c->directory);
    unlink(path);
    rmdir(c->directory);
}

static struct child *start_child(void)
{
    struct child *c = share(sizeof *c);
    c->page = (size_t)sysconf(_SC_PAGESIZE);
    // Pages that two processes share are what a kernel without PAGEMAP_SCAN hardly tells from the zero page.
    c->forked = map_between_guards(24 * c->page, c->page);
    memset(c->forked, 5, 8 * c->page);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_DUMPABLE, 1);
        fill_child(c);
        c->ready = 1;
        for (;;)
            pause();
    }
    c->pid = pid;
    await(&c->ready);
    await_state(pid, 'S');
    return c;
}

static size_t count(const uint8_t *pages, size_t n, uint8_t mask, uint8_t value)
{
    size_t found = 0;
    for (size_t i = 0; i < n; ++i)
        found += (pages[i] & mask) == value;
    return found;
}

static uint64_t rollup_rss(pid_t pid)
{
    char name[64];
    char text[4096];
    snprintf(name, sizeof name, "/proc/%d/smaps_rollup", pid);
    CHECK(as_proc_read(-1, name, text, sizeof text) > 0);
    const char *at = strstr(text, "\nRss:");
    CHECK(at);
    return strtoull(at + 5, NULL, 10) * 1024;
}

// Every mapping's resident pages are its Rss, to the byte; and the mappings' sum is the process's.
static void check_sums(struct as_target *t)
{
    uint64_t rss = 0;
    for (size_t i = 0; i < t->mappings.count; ++i) {
        const struct as_mapping *m = &t->mappings.items[i];
        size_t n = (m->end - m->start) / t->page_size;
        uint8_t *pages = residency_of(t, m->start, m->end);
        size_t present = count(pages, n, AS_RES_PRESENT, AS_RES_PRESENT);
        size_t unknown = count(pages, n, AS_RES_UNKNOWN, AS_RES_UNKNOWN);
        CHECK(i == 0 || m[-1].end <= m->start);
        CHECK(count(pages, n, AS_RES_PRESENT | AS_RES_ZERO, AS_RES_PRESENT | AS_RES_ZERO) == 0);
        CHECK(unknown ? (present <= m->rss / t->page_size && m->rss / t->page_size <= present + unknown)
                      : present * t->page_size == m->rss,
              "%#" PRIx64 " %s: %zu pages present, Rss %" PRIu64, m->start, as_mapping_path(t, m), present, m->rss);
        rss += m->rss;
        free(pages);
    }
    CHECK(rss == t->counts.rss);
    CHECK(rss == rollup_rss(t->pid), "%" PRIu64 " and %" PRIu64, rss, rollup_rss(t->pid));
}

static void check_area(struct as_target *t, const struct child *c)
{
    uint64_t start = (uintptr_t)c->area;
    uint8_t *pages = residency_of(t, start, start + AREA_PAGES * c->page);
    for (size_t i = 0; i < AREA_PAGES; ++i) {
        uint8_t expected = i < WRITTEN || i == ZEROED ? AS_RES_PRESENT : i < READ_ONLY ? AS_RES_ZERO : 0;
        CHECK(pages[i] == expected, "page %zu: %#x, not %#x", i, pages[i], expected);
    }
    free(pages);
    check_skips(t, start, start + AREA_PAGES * c->page, !as_process_of(t)->no_scan);
    // Part of a mapping, with what lies around it.
    pages = residency_of(t, start + (WRITTEN - 1) * c->page, start + (WRITTEN + 1) * c->page);
    CHECK(pages[0] == AS_RES_PRESENT && pages[1] == AS_RES_ZERO);
    free(pages);
    pages = residency_of(t, start - c->page, start + c->page);
    CHECK(pages[0] == 0 && pages[1] == AS_RES_PRESENT);
    free(pages);
}

// As a snapshot records it: the zero page is there, though smaps counts nothing of such a mapping.
static void check_zeros(struct as_target *t, const struct child *c)
{
    uint64_t start = (uintptr_t)c->zeros;
    uint8_t pages[8];
    struct as_error err = {0};
    CHECK(as_target_read_residency_map(t, &err), "%s", err.text);
    CHECK(as_target_residency(t, start, start + 8 * c->page, pages, &err), "%s", err.text);
    CHECK(as_target_mapping_at(t, start)->rss == 0);
    CHECK(count(pages, 8, 0xff, AS_RES_ZERO) == 8, "%zu", count(pages, 8, 0xff, AS_RES_ZERO));
}

static void check_huge(struct as_target *t, const struct child *c)
{
    size_t n = HUGE / c->page;
    uint8_t *pages = residency_of(t, (uintptr_t)c->nothing, (uintptr_t)c->nothing + HUGE);
    CHECK(count(pages, n, AS_RES_PRESENT | AS_RES_ZERO, AS_RES_ZERO) == n, "%#x", pages[0]);
    free(pages);
    pages = residency_of(t, (uintptr_t)c->huge, (uintptr_t)c->huge + 2 * HUGE);
    CHECK(count(pages, 2 * n, AS_RES_PRESENT, AS_RES_PRESENT) == 2 * n);
    free(pages);
}

// Pages that are shared after a fork beside pages that are the zero page. `known`: can the two be told apart?
static void check_forked(struct as_target *t, const struct child *c, bool known)
{
    uint64_t start = (uintptr_t)c->forked;
    uint8_t *pages = residency_of(t, start, start + 24 * c->page);
    for (size_t i = 0; i < 24; ++i) {
        uint8_t expected = i >= 16 ? AS_RES_PRESENT : !known ? AS_RES_UNKNOWN : i < 8 ? AS_RES_PRESENT : AS_RES_ZERO;
        CHECK(pages[i] == expected, "page %zu: %#x, not %#x", i, pages[i], expected);
    }
    CHECK(known == (t->residency.note == NULL), "%s", t->residency.note);
    free(pages);
}

static const struct as_mapping *mapping(struct as_target *t, const void *at, enum as_mapping_kind kind)
{
    const struct as_mapping *m = as_target_mapping_at(t, (uintptr_t)at);
    CHECK(m && m->kind == kind, "%s", m ? as_mapping_path(t, m) : "");
    return m;
}

static void check_kinds(struct as_target *t, const struct child *c)
{
    CHECK(!as_target_mapping_at(t, 0) && !as_target_mapping_at(t, UINT64_MAX));
    const struct as_mapping *area = mapping(t, c->area, AS_MAP_ANON);
    CHECK(area->end - area->start == AREA_PAGES * c->page && area->prot == (AS_PROT_READ | AS_PROT_WRITE));
    CHECK(area->anonymous == area->rss && area->swap == 0 && area->kernel_page_size == c->page);
    CHECK(as_target_mapping_at(t, area->end - 1) == area);
    mapping(t, c->named, AS_MAP_ANON);
    const struct as_mapping *shared = mapping(t, c->shared, AS_MAP_SHMEM);
    CHECK(shared->rss >= 3 * c->page && (shared->prot & AS_PROT_SHARED));
    CHECK(mapping(t, c->memfd, AS_MAP_SHMEM)->rss == 2 * c->page);
    mapping(t, c->deleted, AS_MAP_FILE);
    CHECK(strstr(as_mapping_path(t, mapping(t, c->kept, AS_MAP_FILE)), "/with\nnewline"));
    mapping(t, (void *)(uintptr_t)check_kinds, AS_MAP_FILE);
    for (size_t i = 0; i < t->mappings.count; ++i) {
        const struct as_mapping *m = &t->mappings.items[i];
        const char *path = as_mapping_path(t, m);
        if (strcmp(path, "[stack]") == 0 || strcmp(path, "[heap]") == 0)
            CHECK(m->kind == AS_MAP_ANON);
        if (strcmp(path, "[vvar]") == 0 || strcmp(path, "[vdso]") == 0)
            CHECK(m->kind == AS_MAP_SPECIAL);
    }
    CHECK(strstr(as_strings_at(&t->strings, t->exe), "test_target"));
    CHECK(strstr(as_strings_at(&t->strings, t->cmdline), "test_target") && strncmp(t->comm, "test_target", 11) == 0);
    CHECK(t->threads.count == 1 && t->threads.items[0].tid == c->pid);
}

static void check_reads(struct as_target *t, const struct child *c)
{
    uint64_t start = (uintptr_t)c->area;
    size_t page = c->page;
    uint8_t *buffer = malloc((AREA_PAGES + 2) * page);
    // From the middle of a page over the end of what can be read: exactly up to there.
    uint64_t from = start + (c->guards ? 0 : 30) * page + 100;
    uint64_t to = start + (c->guards ? GUARD_FROM : AREA_PAGES) * page;
    CHECK(t->ops->memory.read(t, from, buffer, (AREA_PAGES + 1) * page) == to - from);
    CHECK(t->ops->memory.read(t, start + 100, buffer, 2 * page) == 2 * page);
    CHECK(buffer[0] == 1 && buffer[page - 100] == 2 && buffer[2 * page - 1] == 3);
    CHECK(t->ops->memory.read(t, start - page, buffer, page) == 0); // PROT_NONE
    CHECK(t->ops->memory.read(t, 0, buffer, 8) == 0 && t->ops->memory.read(t, UINT64_MAX - 3, buffer, 64) == 0);
    CHECK(t->ops->memory.read(t, UINT64_C(1) << 63, buffer, 64) == 0 && t->ops->memory.read(t, start, buffer, 0) == 0);
    uint64_t value;
    CHECK(as_target_read_u64(t, start + page - 4, &value) && value == UINT64_C(0x0202020201010101));
    CHECK(!as_target_read_u64(t, start - 4, &value));

    enum { COUNT = 2000, LENGTH = 24 };
    uint64_t *addresses = malloc(COUNT * sizeof *addresses);
    bool *ok = malloc(COUNT);
    uint8_t *out = malloc(COUNT * 32);
    for (size_t i = 0; i < COUNT; ++i) {
        addresses[i] = start + i % WRITTEN * page + i / WRITTEN * 8;
        if (i % 7 == 3) // hostile ones among them
            addresses[i] = i % 2 ? start - LENGTH / 2 : i % 4 ? UINT64_MAX - i : i;
    }
    as_target_gather(t, addresses, COUNT, LENGTH, out, 32, ok);
    for (size_t i = 0; i < COUNT; ++i) {
        CHECK(ok[i] == (i % 7 != 3), "%zu", i);
        CHECK(!ok[i] || (out[i * 32] == i % WRITTEN + 1 && out[i * 32 + LENGTH - 1] == i % WRITTEN + 1));
    }
    free(addresses);
    free(ok);
    free(out);
    free(buffer);
}

// No two windows have one buffer, and one buffer is kept.
static void check_kept_windows(struct as_target *t)
{
    struct as_window a, b;
    as_windows_keep();
    CHECK(as_window_open(&a, t, NULL));
    as_window_close(&a);
    CHECK(as_window_open(&a, t, NULL) && as_window_open(&b, t, NULL));
    const uint8_t *buffers[] = {a.buffer, b.buffer};
    CHECK(buffers[0] != buffers[1]);
    memset(a.buffer, 1, AS_WINDOW_BYTES);
    as_window_close(&a);
    as_window_close(&b);
    CHECK(as_window_open(&a, t, NULL) && as_window_open(&b, t, NULL));
    CHECK(a.buffer == buffers[0] && b.buffer != buffers[0] && a.buffer[0] == 1);
    as_window_close(&a);
    as_window_close(&b);
}

static void check_window(struct as_target *t, const struct child *c)
{
    struct as_window w;
    CHECK(as_window_open(&w, t, NULL));
    uint64_t start = (uintptr_t)c->area;
    w.limit = start + 10 * c->page;
    const uint8_t *bytes = as_window_at(&w, start + 8, 16);
    CHECK(bytes && bytes[0] == 1 && w.length == 10 * c->page - 8);
    uint64_t read = w.bytes_read;
    bytes = as_window_at(&w, start + 9 * c->page, c->page);
    CHECK(bytes && bytes[0] == 10 && w.bytes_read == read);
    CHECK(!as_window_at(&w, start + 9 * c->page + 1, c->page)); // over the limit
    CHECK(as_window_at(&w, start, 8) && !as_window_at(&w, start - 1, 8));
    CHECK(!as_window_at(&w, start, AS_WINDOW_BYTES + 1));
    w.limit = UINT64_MAX;
    CHECK(as_window_at(&w, start, 8));
    bytes = as_window_at(&w, (uintptr_t)c->huge, 1); // a leap: little of what lies here is worth a snapshot
    CHECK(bytes && w.length < 2 * c->page && bytes[w.length - 1] == 9);
    while (w.length < AS_WINDOW_BYTES) { // straight on: more each time
        size_t before = w.length;
        bytes = as_window_at(&w, w.address + w.length, 1);
        CHECK(bytes && w.length > before && bytes[w.length - 1] == 9);
    }
    as_window_close(&w);
}

// A way that is straight is read ahead, in slices by two threads: every byte is in its place, and where it ends is told exactly.
static void check_straight_way(struct as_target *t, const struct child *c)
{
    enum { STEP = 48, WORDS = STEP / sizeof(uint64_t) };
    struct as_window w;
    CHECK(as_window_open(&w, t, NULL));
    const uint64_t way = (uintptr_t)c->way;
    uint64_t at = 0, wrong = 0;
    for (const uint64_t *words; at < WAY && (words = as_window_at(&w, way + at, STEP)); at += STEP)
        for (size_t i = 0; i < WORDS; i++)
            wrong += words[i] != at / sizeof *words + i;
    CHECK(wrong == 0 && at <= CUT && at + STEP > CUT, "%#llx %#llx", (unsigned long long)at, (unsigned long long)wrong);
    const uint64_t behind = CUT + 3 * c->page;
    CHECK(!as_window_at(&w, way + behind - 1, STEP));
    for (at = behind; at + STEP <= WAY; at += STEP) {
        const uint64_t *words = as_window_at(&w, way + at, STEP);
        CHECK(words && words[0] == at / sizeof *words && words[WORDS - 1] == words[0] + WORDS - 1);
    }
    as_window_close(&w);
}

static void check_file(struct as_target *t, const void *at, const char *text)
{
    struct as_error err = {0};
    int fd = t->ops->open_file(t, mapping(t, at, AS_MAP_FILE), &err);
    if (!text) {
        CHECK(fd < 0 && err.code == AS_DENIED && strstr(err.text, "map_files"), "%d %s", fd, err.text);
        return;
    }
    char found[64] = "";
    CHECK(fd >= 0, "%s", err.text);
    CHECK(read(fd, found, sizeof found) == (ssize_t)strlen(text) && strncmp(found, text, strlen(text)) == 0, "%s",
          found);
    close(fd);
}

static void check_all(struct as_target *t, const struct child *c, bool privileged)
{
    for (int how = 0; how < 2; ++how) {
        as_process_of(t)->no_scan = how == 1;
        check_area(t, c);
        check_zeros(t, c);
        check_forked(t, c, how == 0 || privileged);
        check_huge(t, c);
        check_sums(t);
        t->residency.note = NULL;
    }
    as_process_of(t)->no_scan = false;
    check_kinds(t, c);
    check_file(t, c->kept, "the kept one");
    check_file(t, c->deleted, privileged ? "the deleted one" : NULL);
    check_file(t, c->stale, privileged ? "the first one" : NULL);
    for (int how = 0; how < 2; ++how) {
        as_process_of(t)->no_vm_readv = how == 1;
        check_reads(t, c);
    }
    check_window(t, c);
    check_kept_windows(t);
    check_window(t, c); // with a buffer that was kept
    for (int i = 0; i < 20; i++)
        check_straight_way(t, c);
}

static void test_process(bool privileged)
{
    struct child *c = start_child();
    struct as_target *t = open_process(c->pid);
    CHECK(t->kind == AS_TARGET_PROCESS && t->page_size == c->page && t->pid == c->pid && t->residency.known);
    check_kinds(t, c);
    stop(t);
    check_all(t, c, privileged);
    t->ops->stop.resume(t);
    CHECK(t->stop.duration_ns > 0 && !t->stop.active);
    as_target_close(t);
    // Reading absent pages mapped the zero page there, which costs the target nothing: Rss is what it was.
    t = open_process(c->pid);
    CHECK(mapping(t, c->area, AS_MAP_ANON)->rss == (WRITTEN + 1) * c->page);
    as_target_close(t);
    remove_files(c);
    end_child(c->pid);
}

static void be_nobody(void)
{
    CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
}

static void expect_refused(pid_t pid, enum as_code code, const char *words)
{
    struct as_error err = {0};
    struct as_target *t = as_target_open_process(pid, &err);
    CHECK(!t && err.code == code && strstr(err.text, words), "%d %s", err.code, err.text);
}

static void as_nobody(void *root_process)
{
    be_nobody();
    expect_refused(*(pid_t *)root_process, AS_DENIED, "belongs to user 0 and arenadump runs as user 65534");
    test_process(false);
}

static void *sleep_forever(void *ready)
{
    *(volatile int *)ready = (int)syscall(SYS_gettid);
    for (;;)
        pause();
    return NULL;
}

#if defined(__x86_64__)
// A 32-bit program, whole: pause() for ever.
static const unsigned char
    PROGRAM_32[] =
        {
            0x7f, 'E',  'L',  'F',  1, 1, 1,  0, 0,    0,    0,    0, 0,  0,    0,  0, // e_ident
            2,    0,    3,    0,    1, 0, 0,  0, 0x54, 0x80, 4,    8, 52, 0,    0,  0, 0,    0, 0,
            0,    0,    0,    0,    0,                                // .. e_flags
            52,   0,    32,   0,    1, 0, 40, 0, 0,    0,    0,    0, // .. e_shstrndx
            1,    0,    0,    0,    0, 0, 0,  0, 0,    0x80, 4,    8, 0,  0x80, 4,  8, 0x5d, 0, 0,
            0,    0x5d, 0,    0,    0, 5, 0,  0, 0,    0,    0x10, 0, 0,  0xb8, 29, 0, 0,    0, // mov $29, %eax
            0xcd, 0x80, 0xeb, 0xf7,                                                             // int $0x80; jmp back
};

static void test_32_bit(void)
{
    int fd = memfd_create("program", 0);
    CHECK(fd >= 0 && write(fd, PROGRAM_32, sizeof PROGRAM_32) == sizeof PROGRAM_32);
    volatile int *failed = share(sizeof *failed);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fexecve(fd, (char *[]){"program", NULL}, (char *[]){NULL});
        *failed = 1;
        _exit(0);
    }
    sleep_ms(100);
    if (*failed)
        fprintf(stderr, "this kernel runs no 32-bit programs: not tested\n");
    else
        expect_refused(pid, AS_UNSUPPORTED, "32-bit");
    end_child(pid);
    close(fd);
}
#endif

static void test_refusals(void)
{
    expect_refused(0, AS_NO_TARGET, "no process");
    expect_refused(-1, AS_NO_TARGET, "no process");
    expect_refused(0x3ffffffe, AS_NO_TARGET, "no process");
    struct as_proc_stat stat;
    if (as_proc_stat(-1, "/proc/2/stat", &stat) && (stat.flags & AS_PF_KTHREAD))
        expect_refused(2, AS_UNSUPPORTED, "kernel thread");
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    await_state(pid, 'Z');
    expect_refused(pid, AS_UNSUPPORTED, "zombie");
    waitpid(pid, NULL, 0);
    volatile int tid = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_forever, (void *)&tid) == 0);
    await(&tid);
    expect_refused(tid, AS_NO_TARGET, "a thread of process");
    pthread_cancel(thread);
    pthread_join(thread, NULL);
#if defined(__x86_64__)
    test_32_bit();
#endif
}

// A target that ends, or becomes another program, under our eyes.
static void test_gone(void)
{
    struct child *c = start_child();
    struct as_target *t = open_process(c->pid);
    remove_files(c);
    end_child(c->pid);
    struct as_error err = {0};
    uint8_t page;
    CHECK(t->ops->memory.read(t, (uintptr_t)c->area, &page, 1) == 0);
    CHECK(!t->ops->residency.pages(t, (uintptr_t)c->area, (uintptr_t)c->area + c->page, &page, &err) &&
          err.code == AS_TARGET_GONE);
    CHECK(!t->ops->stop.stop(t, &err) && err.code == AS_TARGET_GONE, "%s", err.text);
    char said[32];
    snprintf(said, sizeof said, "process %d ended", (int)c->pid);
    CHECK(strstr(err.text, said), "%s", err.text);
    as_target_close(t);

    volatile int *step = share(sizeof *step);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        await(step);
        execl("/bin/sleep", "sleep", "100", NULL);
        _exit(1);
    }
    t = open_process(pid);
    *step = 1;
    char comm[64] = "";
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/comm", pid);
    for (int i = 0; i < 5000 && strcmp(comm, "sleep\n") != 0; ++i) {
        sleep_ms(1);
        as_proc_read(-1, name, comm, sizeof comm);
    }
    CHECK(t->ops->memory.read(t, (uintptr_t)step, &page, 1) == 0); // never the new program's memory
    CHECK(!t->ops->stop.stop(t, &err) && err.code == AS_TARGET_GONE && strstr(err.text, "exec"), "%s", err.text);
    CHECK(state_of(pid) != 't');
    as_target_close(t);
    end_child(pid);
}

static void test_self(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *area = map_between_guards(8 * page, page);
    memset(area, 1, 3 * page);
    read_page(area + 4 * page);
    struct as_error err = {0};
    struct as_target *t = as_target_open_self(true, &err);
    CHECK(t, "%s", err.text);
    CHECK(t->kind == AS_TARGET_SELF && t->pid == getpid() && !t->ops->stop.stop && !t->stop.active);
    uint64_t start = (uintptr_t)area;
    uint8_t *pages = residency_of(t, start, start + 8 * page);
    for (size_t i = 0; i < 8; ++i)
        CHECK(pages[i] == (i < 3 ? AS_RES_PRESENT : i == 4 ? AS_RES_ZERO : 0), "%zu: %#x", i, pages[i]);
    free(pages);
    size_t length = 100 * page;
    CHECK(t->ops->memory.in_place(t, start + 1, &length) == area + 1 && length == 8 * page - 1);
    length = 16;
    CHECK(t->ops->memory.in_place(t, start, &length) == area && length == 16);
    CHECK(!t->ops->memory.in_place(t, start - 1, &length) && !t->ops->memory.in_place(t, 0, &length));
    uint8_t bytes[2];
    CHECK(as_target_read(t, start, bytes, 2) && bytes[1] == 1 && !as_target_read(t, start - 1, bytes, 2));
    struct as_window w;
    CHECK(as_window_open(&w, t, NULL));
    CHECK(as_window_at(&w, start, page) == area && w.bytes_read == 0);
    CHECK(!as_window_at(&w, start + 7 * page, page + 1));
    as_window_close(&w);
    CHECK(t->threads.count == 1 && t->threads.items[0].tp != AS_UNKNOWN);
    as_target_close(t);
    // As a process like any other it can be inspected, but not stopped.
    t = open_process(getpid());
    CHECK(!t->ops->stop.stop(t, &err) && err.code == AS_USAGE);
    as_target_close(t);
    as_target_close(NULL);
}

int main(void)
{
    pid_t us = getpid();
    test_refusals();
    test_self();
    test_process(geteuid() == 0);
    test_gone();
    if (geteuid() == 0)
        in_child(as_nobody, &us);
    puts("ok");
    return 0;
}
