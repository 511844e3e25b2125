// SPDX-License-Identifier: MIT
#include "support/mock.h"

#include <sys/mman.h>
#include <unistd.h>

static struct mock *mock_of(struct as_target *t)
{
    return (struct mock *)t;
}

static const struct mock_region *region_at(const struct mock *m, uint64_t address)
{
    for (size_t i = 0; i < m->region_count; i++)
        if (address >= m->regions[i].start && address < m->regions[i].end)
            return &m->regions[i];
    return NULL;
}

static size_t mock_read(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    struct mock *m = mock_of(t);
    size_t done = 0;
    m->reads++;
    while (done < length) {
        const struct mock_region *r = region_at(m, address + done);
        const struct as_mapping *mapping = as_target_mapping_at(t, address + done);
        if (!r || !mapping || !(mapping->prot & AS_PROT_READ))
            break;
        size_t part =
            mapping->end - (address + done) < length - done ? (size_t)(mapping->end - (address + done)) : length - done;
        memcpy((uint8_t *)buffer + done, (const void *)(uintptr_t)(address + done), part);
        done += part;
    }
    m->bytes_read += done;
    return done;
}

// What the kernel says of the page where its memory really is: pages of the mock are those of the machine.
static bool ask_kernel(uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    size_t count = (end - start) / (uint64_t)sysconf(_SC_PAGESIZE);
    if (mincore((void *)(uintptr_t)start, end - start, pages) != 0)
        return as_fail_errno(err, AS_INTERNAL, "mincore");
    for (size_t i = 0; i < count; i++)
        pages[i] = pages[i] & 1 ? AS_RES_PRESENT : 0;
    return true;
}

static bool mock_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    struct mock *m = mock_of(t);
    if (m->refused >= start && m->refused < end)
        return as_fail(err, AS_DENIED, "the mock kernel does not say what page %#llx is",
                       (unsigned long long)m->refused);
    if (m->kernel_residency)
        return ask_kernel(start, end, pages, err);
    for (uint64_t at = start; at < end; at += t->page_size) {
        const struct mock_region *r = region_at(m, at);
        *pages++ = r ? r->residency[(at - r->start) / t->page_size] : 0;
    }
    return true;
}

static bool mock_stop(struct as_target *t, struct as_error *err)
{
    (void)err;
    return t->stop.active = true;
}

static void mock_resume(struct as_target *t)
{
    t->stop.active = false;
}

static void mock_close(struct as_target *t)
{
    struct mock *m = mock_of(t);
    for (size_t i = 0; i < m->region_count; i++)
        free(m->regions[i].residency);
    as_vec_free(&t->mappings);
    as_vec_free(&t->threads);
    as_vec_free(&t->strings);
    as_vec_free(&m->malloc.libcs);
    free(m);
}

static const struct as_target_ops mock_ops = {
    .memory.read = mock_read,
    .residency.pages = mock_residency,
    .stop.stop = mock_stop,
    .stop.resume = mock_resume,
    .close = mock_close,
};

struct mock *mock_new(uint32_t page_size)
{
    struct mock *m = calloc(1, sizeof *m);
    CHECK(m);
    m->target = (struct as_target){
        .ops = &mock_ops,
        .kind = AS_TARGET_PROCESS,
#ifdef __aarch64__
        .arch = AS_ARCH_AARCH64,
#else
        .arch = AS_ARCH_X86_64,
#endif
        .page_size = page_size ? page_size : (uint32_t)sysconf(_SC_PAGESIZE),
        .pid = getpid(),
        .comm = "mock",
        .residency.known = true,
        .stop.active = true,
    };
    m->malloc.kind = AS_MALLOC_GLIBC;
    m->heap_bytes = 64 << 20;
    m->next_libc = UINT64_C(0x200000000000);
    m->next_stack = UINT64_C(0x300000000000);
    return m;
}

void mock_free(struct mock *m)
{
    struct mock_region regions[MOCK_REGIONS];
    size_t count = m->region_count;
    memcpy(regions, m->regions, sizeof regions);
    as_target_close(&m->target);
    for (size_t i = 0; i < count; i++)
        if (regions[i].mapped)
            munmap((void *)(uintptr_t)regions[i].start, regions[i].end - regions[i].start);
}

struct as_mapping *mock_adopt(struct mock *m, uint64_t start, uint64_t length, const char *path)
{
    struct as_target *t = &m->target;
    size_t pages = length / t->page_size;
    CHECK(m->region_count < MOCK_REGIONS && start % t->page_size == 0 && length % t->page_size == 0 && length > 0);
    CHECK(!region_at(m, start) && !region_at(m, start + length - 1));
    uint8_t *residency = malloc(pages);
    CHECK(residency && as_vec_add(&t->mappings, NULL));
    memset(residency, AS_RES_PRESENT, pages);
    m->regions[m->region_count++] = (struct mock_region){.start = start, .end = start + length, .residency = residency};
    size_t at = t->mappings.count - 1;
    for (; at > 0 && t->mappings.items[at - 1].start > start; at--)
        t->mappings.items[at] = t->mappings.items[at - 1];
    t->mappings.items[at] = (struct as_mapping){
        .start = start,
        .end = start + length,
        .prot = AS_PROT_READ | AS_PROT_WRITE,
        .kind = path[0] == '/' ? AS_MAP_FILE : AS_MAP_ANON,
        .path = as_strings_add(&t->strings, path, 256),
        .rss = length,
        .anonymous = length,
        .kernel_page_size = t->page_size,
    };
    t->counts.rss += length;
    return &t->mappings.items[at];
}

struct as_mapping *mock_map(struct mock *m, uint64_t start, uint64_t length, const char *path)
{
    CHECK(start % MOCK_GRANULE == 0); // so that pages of the mock need not be those of the machine
    void *map = mmap((void *)(uintptr_t)start, length, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(map == (void *)(uintptr_t)start, "%#llx is taken", (unsigned long long)start);
    madvise(map, length, MADV_NOHUGEPAGE); // a kernel without huge pages refuses, and needs no asking
    struct as_mapping *mapping = mock_adopt(m, start, length, path);
    m->regions[m->region_count - 1].mapped = true;
    return mapping;
}

void mock_split(struct mock *m, uint64_t address)
{
    struct as_target *t = &m->target;
    struct as_mapping *low = (struct as_mapping *)as_target_mapping_at(t, address);
    CHECK(low && low->start < address && address % t->page_size == 0 && as_vec_add(&t->mappings, NULL));
    size_t at = as_target_mapping_from(t, address);
    memmove(&t->mappings.items[at + 1], &t->mappings.items[at], (t->mappings.count - 1 - at) * sizeof *low);
    low = &t->mappings.items[at];
    struct as_mapping *high = low + 1;
    high->start = low->end = address;
    low->rss = low->anonymous = low->end - low->start;
    high->rss = high->anonymous = high->end - high->start;
}

// Keeps the counts of mappings and process what the kernel would say.
void mock_pages(struct mock *m, uint64_t from, uint64_t to, uint8_t residency)
{
    uint32_t page_size = m->target.page_size;
    for (uint64_t at = from & ~(uint64_t)(page_size - 1); at < to; at += page_size) {
        const struct mock_region *r = region_at(m, at);
        struct as_mapping *mapping = (struct as_mapping *)as_target_mapping_at(&m->target, at);
        CHECK(r && mapping);
        uint8_t *page = &r->residency[(at - r->start) / page_size];
        uint64_t less = *page & AS_RES_PRESENT ? page_size : 0;
        uint64_t more = residency & AS_RES_PRESENT ? page_size : 0;
        mapping->rss += more - less;
        mapping->anonymous += more - less;
        m->target.counts.rss += more - less;
        *page = residency;
    }
}

uint64_t mock_peek(const struct mock *m, uint64_t address)
{
    uint64_t value;
    CHECK(region_at(m, address) && region_at(m, address + 7), "no memory at %#llx", (unsigned long long)address);
    memcpy(&value, (const void *)(uintptr_t)address, sizeof value);
    return value;
}

static void poke(struct mock *m, uint64_t address, const void *value, size_t size)
{
    CHECK(region_at(m, address) && region_at(m, address + size - 1), "no memory at %#llx", (unsigned long long)address);
    memcpy((void *)(uintptr_t)address, value, size);
}

void mock_poke(struct mock *m, uint64_t address, uint64_t value)
{
    poke(m, address, &value, sizeof value);
}

void mock_poke32(struct mock *m, uint64_t address, uint32_t value)
{
    poke(m, address, &value, sizeof value);
}

void mock_poke16(struct mock *m, uint64_t address, uint16_t value)
{
    poke(m, address, &value, sizeof value);
}
