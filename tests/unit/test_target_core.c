// SPDX-License-Identifier: MIT
// Core files: written by this kernel and by gdb, copied so that holes are lost or won, truncated, and made to lie.
#include "target_util.h"

#include "target/core/core.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { AREA_PAGES = 64, WRITTEN = 16, READ_ONLY = 24, RELEASED = 32, ZEROED = 40 };

struct child {
    volatile int ready;
    size_t page;
    char *area; // AREA_PAGES as the enum says
    char *file; // a page of a file in the directory
    pid_t thread;
    uint64_t thread_tp;
};

static char directory[64];

static const char *in_directory(const char *name)
{
    static char path[4][160];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", directory, name);
    return path[next];
}

static void run(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    CHECK(system(command) == 0, "%s", command);
}

static void *sleep_forever(void *argument)
{
    struct child *c = argument;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(c->thread_tp));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(c->thread_tp));
#endif
    c->thread = gettid();
    c->ready = 1;
    for (;;)
        pause();
    return NULL;
}

static void fill_child(struct child *c)
{
    size_t page = c->page;
    char *area = mmap(NULL, (AREA_PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area + page, AREA_PAGES * page, PROT_READ | PROT_WRITE) == 0);
    c->area = area + page;
    for (size_t i = 0; i < AREA_PAGES; ++i) {
        char *at = c->area + i * page;
        if (i < WRITTEN || (i >= READ_ONLY && i < RELEASED))
            memset(at, (int)i + 1, page);
        else if (i < READ_ONLY)
            (void)*(volatile char *)at;
        else if (i == ZEROED)
            memset(at, 0, page);
    }
    madvise(c->area + READ_ONLY * page, (RELEASED - READ_ONLY) * page, MADV_DONTNEED);
    int fd = open("mapped", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "mapped", 6) == 6);
    c->file = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(c->file != MAP_FAILED && c->file[0] == 'm');
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_forever, c) == 0);
}

static pid_t start_child(struct child *c, const char *filter)
{
    memset(c, 0, sizeof *c);
    c->page = (size_t)sysconf(_SC_PAGESIZE);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(chdir(directory) == 0);
        CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
        int fd = open("/proc/self/coredump_filter", O_WRONLY);
        CHECK(fd >= 0 && write(fd, filter, strlen(filter)) > 0);
        close(fd);
        fill_child(c);
        for (;;)
            pause();
    }
    await(&c->ready);
    return pid;
}

// AddressSanitizer reserves terabytes: cores of it are not to be written, and dense copies less.
#if defined(__SANITIZE_ADDRESS__)
static const bool huge_reservations = true;
#else
static const bool huge_reservations = false;
#endif

static bool kernel_writes_here(void)
{
    char pattern[256];
    CHECK(as_proc_read(-1, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) > 0);
    return pattern[0] != '|' && !strchr(pattern, '/');
}

// Lets the kernel write a core of the child to `name`.
static void dump_child(pid_t pid, const char *name)
{
    int status;
    kill(pid, SIGABRT);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WCOREDUMP(status));
    run("mv %s/core* %s", directory, in_directory(name));
}

static struct as_target *open_core(const char *name)
{
    struct as_error err = {0};
    struct as_target *t = as_target_open_core(in_directory(name), &err);
    CHECK(t, "%s", err.text);
    CHECK(t->kind == AS_TARGET_CORE && t->counts.rss == AS_UNKNOWN && t->counts.swap == AS_UNKNOWN);
    CHECK(!t->ops->stop.stop && !t->stop.active);
    return t;
}

static void expect_refused(const char *name, enum as_code code, const char *words)
{
    struct as_error err = {0};
    struct as_target *t = as_target_open_core(in_directory(name), &err);
    CHECK(!t && err.code == code && strstr(err.text, words), "%d %s", err.code, err.text);
}

// All of the area unknown, or each page as it was; a page of zeros counts as absent where zeros were made holes.
static void check_area(struct as_target *t, const struct child *c, bool known, bool zeros_lost)
{
    uint64_t start = (uintptr_t)c->area;
    uint8_t *pages = residency_of(t, start - c->page, start + (AREA_PAGES + 1) * c->page);
    CHECK(t->residency.known == known, "%s", t->residency.note);
    for (size_t i = 0; i < AREA_PAGES; ++i) {
        bool present = i < WRITTEN || (i == ZEROED && !zeros_lost);
        uint8_t expected = !known ? AS_RES_UNKNOWN : present ? AS_RES_PRESENT : 0;
        CHECK(pages[i + 1] == expected, "page %zu: %#x, not %#x (%s)", i, pages[i + 1], expected, t->residency.note);
    }
    free(pages);
    if (known)
        check_skips(t, start, start + AREA_PAGES * c->page, true);
}

static const struct as_mapping *mapping(struct as_target *t, const void *at, enum as_mapping_kind kind)
{
    const struct as_mapping *m = as_target_mapping_at(t, (uintptr_t)at);
    CHECK(m && m->kind == kind && m->rss == AS_UNKNOWN, "%s", m ? as_mapping_path(t, m) : "");
    return m;
}

static void check_contents(struct as_target *t, const struct child *c, pid_t pid)
{
    CHECK(t->pid == pid && strcmp(t->comm, "test_target_cor") == 0 && t->page_size == c->page);
    CHECK(strstr(as_strings_at(&t->strings, t->exe), "test_target_core"));
    CHECK(strstr(as_strings_at(&t->strings, t->cmdline), "test_target_core"));
    CHECK(t->threads.count == 2);
    const struct as_thread *other = &t->threads.items[t->threads.items[0].tid == pid];
    CHECK(other->tid == c->thread && other->tp == c->thread_tp);
    CHECK(mapping(t, (void *)(uintptr_t)other->sp, AS_MAP_ANON) != NULL);
    CHECK(mapping(t, (void *)(uintptr_t)other->pc, AS_MAP_FILE) != NULL);

    uint64_t start = (uintptr_t)c->area;
    size_t page = c->page;
    uint8_t *bytes = malloc((AREA_PAGES + 1) * page);
    // The kernel dumps the PROT_NONE page behind as a hole, gdb not at all.
    CHECK(t->ops->memory.read(t, start + 100, bytes, (AREA_PAGES + 1) * page) >= AREA_PAGES * page - 100);
    CHECK(bytes[0] == 1 && bytes[page - 100] == 2 && bytes[WRITTEN * page - 101] == WRITTEN);
    CHECK(bytes[READ_ONLY * page] == 0 && bytes[AREA_PAGES * page - 101] == 0);
    CHECK(t->ops->memory.read(t, 0, bytes, 8) == 0 && t->ops->memory.read(t, UINT64_MAX - 1, bytes, 8) == 0);
    uint64_t addresses[3] = {start, 8, start + page - 4};
    uint64_t words[3];
    bool ok[3];
    as_target_gather(t, addresses, 3, sizeof words[0], words, sizeof words[0], ok);
    CHECK(ok[0] && !ok[1] && ok[2] && words[0] == UINT64_C(0x0101010101010101));
    CHECK(words[2] == UINT64_C(0x0202020201010101));
    free(bytes);

    // The program's code is in the core or not; its file is at hand, and proven by its first page.
    const struct as_mapping *code = mapping(t, (void *)(uintptr_t)check_contents, AS_MAP_FILE);
    struct as_error err = {0};
    int fd = t->ops->open_file(t, code, &err);
    CHECK(fd >= 0, "%s", err.text);
    uint8_t in_file[64];
    uint64_t offset = code->offset + ((uintptr_t)check_contents - code->start);
    CHECK(pread(fd, in_file, sizeof in_file, (off_t)offset) == sizeof in_file);
    CHECK(memcmp(in_file, (void *)(uintptr_t)check_contents, sizeof in_file) == 0);
    close(fd);
    CHECK(t->ops->open_file(t, as_target_mapping_at(t, start), &err) < 0);
}

static void test_kernel_core(void)
{
    struct child *c = share(sizeof *c);
    pid_t pid = start_child(c, "0x33");
    dump_child(pid, "kernel");
    struct as_target *t = open_core("kernel");
    check_area(t, c, true, false);
    CHECK(strstr(t->residency.note, "swapped out") && !strstr(t->residency.note, ";"), "%s", t->residency.note);
    check_contents(t, c, pid);
    uint8_t *pages = residency_of(t, (uintptr_t)c->file, (uintptr_t)c->file + c->page);
    CHECK(pages[0] == AS_RES_UNKNOWN); // of files the holes say nothing
    free(pages);
    as_target_close(t);

    run("cd %s && tar -cSf tar kernel && mkdir tarred && tar -xf tar -C tarred", directory);
    t = open_core("tarred/kernel");
    check_area(t, c, true, false);
    CHECK(!strstr(t->residency.note, ";"), "%s", t->residency.note);
    check_contents(t, c, pid);
    as_target_close(t);
    run("cp --sparse=never %s %s", in_directory("kernel"), in_directory("copy"));
    t = open_core("copy");
    check_area(t, c, false, false);
    check_contents(t, c, pid);
    CHECK(strstr(t->residency.note, "no holes"), "%s", t->residency.note);
    as_target_close(t);
    run("cp --sparse=always %s %s", in_directory("kernel"), in_directory("copy"));
    t = open_core("copy");
    check_area(t, c, true, true);
    check_contents(t, c, pid);
    CHECK(strstr(t->residency.note, "puts zeros into holes has copied it (cp does"), "%s", t->residency.note);
    as_target_close(t);
}

static void test_truncated(const struct child *c)
{
    struct as_target *t = open_core("kernel");
    const struct as_segment *s = as_core_segment_at(as_core_of(t), (uintptr_t)c->area);
    CHECK(s && s->start == (uintptr_t)c->area);
    long long cut = (long long)(s->offset + 10 * c->page + 100);
    as_target_close(t);
    run("cp %s %s && truncate -s %lld %s", in_directory("kernel"), in_directory("cut"), cut, in_directory("cut"));
    t = open_core("cut");
    CHECK(strstr(t->residency.note, "truncated") && strstr(t->residency.note, "missing"), "%s", t->residency.note);
    uint8_t bytes[8];
    CHECK(t->ops->memory.read(t, (uintptr_t)c->area + 10 * c->page + 96, bytes, 8) == 4 && bytes[0] == 11);
    CHECK(t->ops->memory.read(t, (uintptr_t)c->area + 12 * c->page, bytes, 8) == 0);
    uint8_t *pages = residency_of(t, (uintptr_t)c->area, (uintptr_t)c->area + AREA_PAGES * c->page);
    for (size_t i = 0; i < AREA_PAGES; ++i) {
        // No page of zeros and hardly a hole is left before the cut: known or not, what is missing is unknown.
        CHECK(i < 10 ? pages[i] != 0 : pages[i] == AS_RES_UNKNOWN, "%zu: %#x", i, pages[i]);
    }
    free(pages);
    as_target_close(t);
    run("truncate -s 700 %s", in_directory("cut"));
    expect_refused("cut", AS_BAD_INPUT, "truncated within its headers");
    run("truncate -s 40 %s", in_directory("cut"));
    expect_refused("cut", AS_BAD_INPUT, "truncated");
    run("truncate -s 0 %s", in_directory("cut"));
    expect_refused("cut", AS_BAD_INPUT, "not a core file");
}

// Only private anonymous memory in the core: no code, not even first pages of files.
static void test_filtered(struct child *c)
{
    pid_t pid = start_child(c, "0x01");
    dump_child(pid, "filtered");
    struct as_target *t = open_core("filtered");
    check_area(t, c, true, false);
    check_contents(t, c, pid);
    uint8_t byte;
    CHECK(t->ops->memory.read(t, (uintptr_t)c->file, &byte, 1) == 0 &&
          t->ops->memory.read(t, (uintptr_t)check_area, &byte, 1) == 0);
    struct as_error err = {0};
    int fd = t->ops->open_file(t, mapping(t, c->file, AS_MAP_FILE), &err);
    CHECK(fd >= 0, "%s", err.text);
    close(fd);
    sleep_ms(20); // later than the core, by the file system's clock
    run("cp %s %s && mv %s %s", in_directory("mapped"), in_directory("new"), in_directory("new"),
        in_directory("mapped"));
    CHECK(t->ops->open_file(t, mapping(t, c->file, AS_MAP_FILE), &err) < 0 && err.code == AS_NO_TARGET);
    CHECK(strstr(err.text, "newer than the core"), "%s", err.text);
    run("rm %s", in_directory("mapped"));
    CHECK(t->ops->open_file(t, mapping(t, c->file, AS_MAP_FILE), &err) < 0 && strstr(err.text, "not on this machine"));
    as_target_close(t);
}

static void test_gcore(struct child *c)
{
    if (system("gdb --version >/dev/null 2>&1") != 0) {
        fprintf(stderr, "no gdb here: gcore is not tested\n");
        return;
    }
    pid_t pid = start_child(c, "0x33");
    run("gdb -nx -batch -iex 'set debuginfod enabled off' -p %d -ex 'generate-core-file %s' >/dev/null 2>&1", pid,
        in_directory("gcore"));
    end_child(pid);
    struct as_target *t = open_core("gcore");
    check_area(t, c, false, false);
    CHECK(strstr(t->residency.note, "gcore"), "%s", t->residency.note);
    check_contents(t, c, pid);
    as_target_close(t);
    // Its notes come last, and are what a truncated one lacks first: memory is all that is left then.
    struct stat stat;
    CHECK(lstat(in_directory("gcore"), &stat) == 0 && truncate(in_directory("gcore"), stat.st_size / 2) == 0);
    t = open_core("gcore");
    CHECK(t->threads.count == 0 && !t->residency.known && strstr(t->residency.note, "truncated"));
    as_target_close(t);
}

// --- cores of our own making ---

struct synthetic {
    Elf64_Ehdr header;
    Elf64_Phdr program[3]; // notes, two pieces of memory
    Elf64_Shdr section;
    uint8_t notes[4096];
    size_t notes_size;
};

static void add_note(struct synthetic *s, const char *owner, uint32_t type, const void *data, uint32_t size)
{
    Elf64_Nhdr header = {.n_namesz = (uint32_t)strlen(owner) + 1, .n_descsz = size, .n_type = type};
    memcpy(s->notes + s->notes_size, &header, sizeof header);
    memcpy(s->notes + s->notes_size + sizeof header, owner, strlen(owner));
    s->notes_size += sizeof header + ((header.n_namesz + 3) & ~3u);
    memcpy(s->notes + s->notes_size, data, size);
    s->notes_size += (size + 3) & ~3u;
}

// An aarch64 core with pages of 64 KiB: two threads, of which one has its thread pointer told; two pieces of memory.
static struct synthetic *make_synthetic(void)
{
    struct synthetic *s = calloc(1, sizeof *s);
    memcpy(s->header.e_ident, ELFMAG, SELFMAG);
    s->header.e_ident[EI_CLASS] = ELFCLASS64;
    s->header.e_ident[EI_DATA] = ELFDATA2LSB;
    s->header.e_type = ET_CORE;
    s->header.e_machine = EM_AARCH64;
    s->header.e_phoff = offsetof(struct synthetic, program);
    s->header.e_phentsize = sizeof(Elf64_Phdr);
    s->header.e_phnum = 3;
    s->header.e_shoff = offsetof(struct synthetic, section);
    s->section.sh_info = 3;
    uint8_t status[392] = {0};
    uint8_t info[136] = {0};
    uint64_t words[3] = {0x7000, 0x8000, 0};
    for (int i = 1; i <= 2; ++i) {
        int32_t pid = 100 + i;
        memcpy(status + 32, &pid, sizeof pid);
        memcpy(status + 112 + (size_t)31 * 8, words, 16);
        add_note(s, "CORE", NT_PRSTATUS, status, sizeof status);
        if (i == 1) {
            memcpy(info + 24, &pid, sizeof pid);
            strcpy((char *)info + 40, "synthetic");
            strcpy((char *)info + 56, "synthetic -v ");
            add_note(s, "CORE", NT_PRPSINFO, info, sizeof info);
            add_note(s, "CORE", NT_SIGINFO, status, 128);
            uint64_t aux[] = {AT_PAGESZ, 65536, AT_PHDR, 0x20040, AT_NULL, 0};
            add_note(s, "CORE", NT_AUXV, aux, sizeof aux);
            struct {
                uint64_t count, unit, entries[2][3];
                char names[32];
            } files = {2, 65536, {{0x20000, 0x30000, 0}, {0x50000, 0x60000, 3}}, "/bin/one\0/lib/two"};
            add_note(s, "CORE", NT_FILE, &files, sizeof files);
            uint64_t tls = 0x12345678;
            add_note(s, "LINUX", 0x401, &tls, sizeof tls);
        }
    }
    s->program[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = offsetof(struct synthetic, notes)};
    s->program[0].p_filesz = s->notes_size;
    s->program[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_flags = PF_R | PF_X,
                                 .p_offset = 65536,
                                 .p_vaddr = 0x20000,
                                 .p_filesz = 65536,
                                 .p_memsz = 65536,
                                 .p_align = 65536};
    s->program[2] = (Elf64_Phdr){.p_type = PT_LOAD,
                                 .p_flags = PF_R | PF_W,
                                 .p_offset = 131072,
                                 .p_vaddr = 0x30000,
                                 .p_filesz = 131072,
                                 .p_memsz = 131072,
                                 .p_align = 65536};
    return s;
}

static void write_synthetic(const struct synthetic *s)
{
    unlink(in_directory("synthetic"));
    int fd = open(in_directory("synthetic"), O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && write(fd, s, sizeof *s) == sizeof *s && ftruncate(fd, 262144) == 0);
    CHECK(pwrite(fd, "x", 1, 131072) == 1);
    close(fd);
}

static void test_synthetic(void)
{
    struct synthetic *s = make_synthetic();
    for (int i = 0; i < 2; ++i) {
        if (i == 1)
            s->header.e_phnum = PN_XNUM; // more segments than fit: their number is in the first section header
        write_synthetic(s);
        struct as_target *t = open_core("synthetic");
        CHECK(t->arch == AS_ARCH_AARCH64 && t->page_size == 65536 && t->pid == 101);
        CHECK(strcmp(t->comm, "synthetic") == 0 && strcmp(as_strings_at(&t->strings, t->cmdline), "synthetic -v") == 0);
        CHECK(strcmp(as_strings_at(&t->strings, t->exe), "/bin/one") == 0);
        CHECK(t->threads.count == 2 && t->threads.items[0].tp == 0x12345678 && t->threads.items[1].tp == AS_UNKNOWN);
        CHECK(t->threads.items[1].tid == 102 && t->threads.items[1].sp == 0x7000 && t->threads.items[1].pc == 0x8000);
        // What NT_FILE alone knows of is a mapping too, without bytes.
        CHECK(t->mappings.count == 3 && t->mappings.items[1].kind == AS_MAP_ANON && t->mappings.items[1].path == 0);
        CHECK(t->mappings.items[2].start == 0x50000 && t->mappings.items[2].offset == 3 * 65536);
        CHECK(strcmp(as_mapping_path(t, &t->mappings.items[2]), "/lib/two") == 0);
        uint8_t byte;
        CHECK(t->ops->memory.read(t, 0x50000, &byte, 1) == 0 && t->ops->memory.read(t, 0x30000, &byte, 1) == 1 &&
              byte == 'x');
        // A search must not try its pages one by one: the list may claim any amount of memory.
        CHECK(t->ops->memory.missing_until(t, 0x50000) == 0x60000 &&
              t->ops->memory.missing_until(t, 0x60000) == 0x60000);
        CHECK(t->ops->memory.missing_until(t, 0x30000) == 0x30000);
        uint8_t *pages = residency_of(t, 0x20000, 0x60000);
        CHECK(t->residency.known && pages[0] == AS_RES_UNKNOWN && pages[1] == AS_RES_PRESENT && pages[2] == 0);
        CHECK(pages[3] == AS_RES_UNKNOWN);
        free(pages);
        as_target_close(t);
    }
    free(s);
}

static size_t asked; // times

static bool count_asking(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    asked++;
    return as_core_residency(t, start, end, pages, err);
}

// What a core claims and has not got is one run, and is not asked for page by page.
static void test_claims(void)
{
    struct synthetic *s = make_synthetic();
    s->program[2].p_memsz = UINT64_C(1) << 38;
    write_synthetic(s);
    struct as_target *t = open_core("synthetic");
    struct as_target_ops ops = *t->ops;
    struct as_error err;
    ops.residency.pages = count_asking;
    t->ops = &ops;
    CHECK(as_target_read_residency_map(t, &err), "%s", err.text);
    const struct as_page_run *last = t->residency.runs.items + t->residency.runs.count - 1;
    CHECK(last->start == 0x60000 && last->end == 0x30000 + (UINT64_C(1) << 38) && last->residency == AS_RES_UNKNOWN);
    CHECK(t->mappings.items[1].recorded && t->mappings.items[3].recorded && asked == 1, "%zu", asked);
    as_target_close(t);
    free(s);
}

static void refuse_patched(size_t offset, uint64_t value, size_t size, enum as_code code, const char *words)
{
    struct synthetic *s = make_synthetic();
    memcpy((uint8_t *)s + offset, &value, size);
    write_synthetic(s);
    expect_refused("synthetic", code, words);
    free(s);
}

#define REFUSE(field, value, code, words)                                                                              \
    refuse_patched(offsetof(struct synthetic, field), value, sizeof((struct synthetic *)0)->field, code, words)

static void test_lies(void)
{
    REFUSE(header.e_ident[EI_CLASS], ELFCLASS32, AS_UNSUPPORTED, "32-bit");
    REFUSE(header.e_ident[EI_DATA], ELFDATA2MSB, AS_UNSUPPORTED, "big-endian");
    REFUSE(header.e_machine, EM_RISCV, AS_UNSUPPORTED, "machine 243");
    REFUSE(header.e_type, ET_EXEC, AS_BAD_INPUT, "a program or a library");
    REFUSE(header.e_type, ET_REL, AS_BAD_INPUT, "type 1");
    REFUSE(header.e_phoff, UINT64_MAX - 8, AS_BAD_INPUT, "truncated");
    REFUSE(header.e_phentsize, 1, AS_BAD_INPUT, "damaged");
    REFUSE(header.e_phnum, 60000, AS_BAD_INPUT, "truncated");
    REFUSE(header.e_phnum, 0, AS_BAD_INPUT, "no memory");
    REFUSE(program[1].p_memsz, UINT64_MAX, AS_BAD_INPUT, "damaged");
    REFUSE(program[1].p_memsz, 65535, AS_BAD_INPUT, "damaged");
    REFUSE(program[1].p_vaddr, 0x21000, AS_BAD_INPUT, "damaged");
    REFUSE(program[2].p_offset, UINT64_MAX, AS_BAD_INPUT, "damaged");
    REFUSE(program[2].p_vaddr, 0x10000, AS_BAD_INPUT, "out of order");
    run("printf '\\050\\265\\057\\375more' > %s", in_directory("compressed"));
    expect_refused("compressed", AS_BAD_INPUT, "zstd");
    run("head -c 100000 /dev/urandom > %s", in_directory("garbage"));
    expect_refused("garbage", AS_BAD_INPUT, "not a core file");
    expect_refused("missing", AS_NO_TARGET, "No such file");
    expect_refused("", AS_BAD_INPUT, "not a regular file");
    run("mkfifo %s", in_directory("fifo"));
    expect_refused("fifo", AS_BAD_INPUT, "not a regular file"); // and does not wait for a writer
}

// Bytes changed at random: whatever the core says then, it is refused or read, in bounded time and memory.
static void test_mutations(void)
{
    unsigned seed = 1;
    size_t opened = 0;
    for (int round = 0; round < 3000; ++round) {
        struct synthetic *s = make_synthetic();
        size_t end = offsetof(struct synthetic, notes) + s->notes_size;
        for (int i = 0; i <= round % 4; ++i)
            ((uint8_t *)s)[(size_t)rand_r(&seed) % end] = (uint8_t)(rand_r(&seed) % 3 ? rand_r(&seed) : 0xff);
        write_synthetic(s);
        free(s);
        struct as_target *t = as_target_open_core(in_directory("synthetic"), NULL);
        if (!t)
            continue;
        ++opened;
        for (size_t i = 0; i < t->mappings.count; ++i) {
            const struct as_mapping *m = &t->mappings.items[i];
            CHECK(m->start < m->end && (i == 0 || m[-1].end <= m->start));
            CHECK(m->start % t->page_size == 0 && m->end % t->page_size == 0);
            uint8_t bytes[256];
            t->ops->memory.read(t, m->start, bytes, sizeof bytes);
            t->ops->memory.read(t, m->end - 8, bytes, sizeof bytes);
            as_mapping_path(t, m);
            if (m->end - m->start <= (size_t)t->page_size * 1024)
                free(residency_of(t, m->start, m->end));
        }
        as_target_close(t);
    }
    CHECK(opened > 300 && opened < 3000, "%zu", opened);
}

int main(void)
{
    snprintf(directory, sizeof directory, "/tmp/test_target_core.XXXXXX");
    CHECK(mkdtemp(directory));
    struct child *c = share(sizeof *c);
    if (huge_reservations) {
        fprintf(stderr, "built with AddressSanitizer: no core is written\n");
    } else if (kernel_writes_here()) {
        test_kernel_core();
        pid_t pid = start_child(c, "0x33");
        dump_child(pid, "kernel");
        test_truncated(c);
        test_filtered(c);
    } else {
        fprintf(stderr, "kernel.core_pattern sends cores elsewhere: the kernel's own are not tested\n");
    }
    if (!huge_reservations)
        test_gcore(c);
    test_synthetic();
    test_claims();
    test_lies();
    test_mutations();
    run("rm -r %s", directory);
    puts("ok");
    return 0;
}
