// SPDX-License-Identifier: MIT
// Ruby's pages by structure. Each begins with a pointer to its struct heap_page, which points back into it; that leads on to
// struct objspace, and there stands Ruby's own array of all its pages, with their number. Each of its elements must be a page
// that fits: then the array is the answer, and proven. Pages that Ruby has given up may resemble pages still; they are not in it.
#include "runtimes/ruby.h"

#include "runtimes/regions.h"
#include "runtimes/ruby_layouts.h"

#include <string.h>

enum {
    BATCH = 256,        // addresses that are read in one go
    TRIES = 64,         // likely pages from which the array is searched for, before we give up
    AROUND = 16384,     // bytes of struct objspace on either side of where a page points
    STEP = 16384,       // of the kernel's pages, whose residency is asked for in one go: a multiple of any of Ruby's
    FREE_READS = 65536, // at a struct heap_page, whatever the target's size
    READS = 4,          // for each place where a page may be: twice what it takes to follow a list and read the array
    BASE_SLOT = 40,     // bytes of the smallest slot
    LARGEST_SLOT = 1024,
    NODE_TO_NEXT = 0, // struct list_node: next, prev
};

static const uint64_t LARGEST_MAPPING = UINT64_C(1) << 38; // bytes: what is larger is a reservation, not a heap

struct page_header {
    uint64_t address; // of struct heap_page
    uint8_t bytes[AS_RUBY_HEADER];
};

// The target may be made so that inspecting never ends: lists that go in circles, arrays of pages that all fit but the last. So
// the number of reads is limited, by how much memory there is that could be Ruby's.
struct ruby_search {
    struct as_target *target;
    const struct as_ruby_layout *layout;
    struct as_ruby *out;
    struct as_error *err;
    int tries;
    int64_t reads_left; // that are left
    bool done;
};

// What is done with places where a page may begin.
typedef void visit_fn(struct ruby_search *s, const uint64_t *addresses, size_t count);

static uint64_t word(const struct page_header *h, int offset)
{
    uint64_t value;
    memcpy(&value, h->bytes + offset, sizeof value);
    return value;
}

static uint32_t half(const struct page_header *h, int offset)
{
    uint16_t value;
    memcpy(&value, h->bytes + offset, sizeof value);
    return value;
}

static bool read_header(struct as_target *t, uint64_t address, struct page_header *h)
{
    h->address = address;
    return address % 8 == 0 && address != 0 && as_target_read(t, address, h->bytes, sizeof h->bytes);
}

// Does a struct heap_page fit the layout? Then it is as *page says.
static bool fits_layout(const struct as_ruby_layout *layout, const struct page_header *h, struct as_ruby_page *page)
{
    uint64_t start = word(h, layout->start);
    uint64_t mask = ~((uint64_t)layout->align - 1);
    uint64_t body = layout->body < 0 ? start & mask : word(h, layout->body);
    *page = (struct as_ruby_page){.address = body, .size = layout->size};
    if (body == 0 || (body & ~mask) != 0)
        return false;
    if (layout->body >= 0 && start == 0) // in reserve: no heap has divided it into slots
        return half(h, layout->total_slots) == 0;
    uint32_t slot = layout->slot_size < 0 ? BASE_SLOT : half(h, layout->slot_size);
    uint32_t total = half(h, layout->total_slots);
    if (slot < BASE_SLOT || slot > LARGEST_SLOT || slot % 8 != 0 || start % 8 != 0 || start <= body)
        return false;
    // As many slots as there is room for, or one less.
    uint64_t lead = start - body;
    if (lead > slot + BASE_SLOT || lead >= layout->size)
        return false;
    uint64_t room = (layout->size - lead) / slot;
    if (total > room || total + 1 < room)
        return false;
    page->first_slot = (uint32_t)lead;
    page->slot_size = slot;
    page->total_slots = total;
    return true;
}

// Reads `count` structs heap_page, no more than BATCH, and what they say of their pages. False unless each of them fits, and its
// page points back to it.
static bool read_pages(struct ruby_search *s, const uint64_t *heap_pages, size_t count, struct as_ruby_page *pages)
{
    static const size_t whole = AS_RUBY_HEADER;
    uint8_t headers[BATCH * AS_RUBY_HEADER];
    uint64_t bodies[BATCH], back[BATCH];
    bool ok[BATCH];
    s->reads_left -= (int64_t)count;
    if (s->reads_left < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (heap_pages[i] % 8 != 0 || !as_target_mapping_at(s->target, heap_pages[i]))
            return false;
    }
    as_target_gather(s->target, heap_pages, count, whole, headers, whole, ok);
    for (size_t i = 0; i < count; i++) {
        struct page_header h = {.address = heap_pages[i]};
        memcpy(h.bytes, headers + i * whole, whole);
        if (!ok[i] || !fits_layout(s->layout, &h, &pages[i]) || !as_target_mapping_at(s->target, pages[i].address))
            return false;
        bodies[i] = pages[i].address;
    }
    as_target_gather(s->target, bodies, count, sizeof *back, back, sizeof *back, ok);
    for (size_t i = 0; i < count; i++) {
        if (!ok[i] || back[i] != heap_pages[i])
            return false;
    }
    return true;
}

// Reads Ruby's array at `data`, of `count` elements, if that is what it is.
static bool read_array(struct ruby_search *s, uint64_t data, uint64_t count, struct as_error *err)
{
    struct as_ruby *out = s->out;
    uint64_t elements[BATCH];
    struct as_ruby_page pages[BATCH];
    out->pages.count = 0;
    uint64_t after = 0; // the end of the last
    // One at first: nearly everything that is inspected is no array.
    for (uint64_t done = 0, n = 1; done < count; done += n, n = BATCH) {
        if (n > count - done)
            n = count - done;
        if (!as_target_read(s->target, data + done * sizeof *elements, elements, n * sizeof *elements) ||
            !read_pages(s, elements, n, pages) || !as_vec_reserve(&out->pages, n, err))
            return false;
        for (size_t i = 0; i < n; i++) {
            if (pages[i].address < after)
                return false; // they are sorted; those without slots too, for they keep their place
            after = pages[i].address + s->layout->align;
            out->pages.items[out->pages.count++] = pages[i];
        }
    }
    return true;
}

// Searches for the array in the struct objspace around `inside`: a pointer to it, and its length beside it (up to 3.3) or at its
// own head (from 3.4 on). True when it was found, or when our memory ran out.
static bool find_array(struct ruby_search *s, uint64_t inside)
{
    struct as_target *t = s->target;
    const struct as_ruby_layout *layout = s->layout;
    struct as_range around = as_runtime_around(t, inside, AROUND);
    uint64_t words[2 * AROUND / 8];
    size_t count = (size_t)(around.end - around.start) / 8;
    if (inside % 8 != 0 || !as_target_read(t, around.start, words, count * 8))
        return false;
    for (size_t i = 0; i + 1 < count && s->reads_left > 0; i++) {
        if (words[i] % 8 != 0 || !as_is_runtime_memory(as_target_mapping_at(t, words[i])))
            continue;
        uint64_t length = words[i + 1];
        uint64_t data = words[i] + (uint64_t)layout->array_data;
        if (layout->array_data != 0 && !as_target_read_u64(t, words[i], &length))
            continue;
        if (length == 0 || length > LARGEST_MAPPING / 8)
            continue;
        struct as_error failed = {0};
        if (read_array(s, data, length, &failed))
            return true;
        if (failed.code != AS_OK) {
            *s->err = failed;
            return true;
        }
    }
    return false;
}

// From a page to struct objspace: through its pool, or along the list of its heap to the head of it.
static uint64_t objspace_of(struct ruby_search *s, const struct page_header *h)
{
    const struct as_ruby_layout *layout = s->layout;
    if (layout->pool >= 0)
        return word(h, layout->pool);
    struct page_header at = *h;
    for (; s->reads_left > 0; s->reads_left--) {
        uint64_t next = word(&at, layout->node + NODE_TO_NEXT);
        struct as_ruby_page page;
        if (next < (uint64_t)layout->node)
            return 0;
        if (!read_header(s->target, next - (uint64_t)layout->node, &at) || !fits_layout(layout, &at, &page))
            return next;
        if (at.address == h->address)
            return 0;
    }
    return 0;
}

// Could Ruby's heap lie in there?
static bool is_likely(const struct as_mapping *m)
{
    return m->kind == AS_MAP_ANON && !(m->prot & AS_PROT_SHARED) && (m->prot & AS_PROT_WRITE) &&
           m->end - m->start <= LARGEST_MAPPING;
}

static void count_places(struct ruby_search *s, const uint64_t *addresses, size_t count)
{
    (void)addresses;
    s->reads_left += READS * (int64_t)count;
}

static void try_places(struct ruby_search *s, const uint64_t *addresses, size_t count)
{
    uint64_t words[BATCH];
    bool ok[BATCH];
    as_target_gather(s->target, addresses, count, sizeof *words, words, sizeof *words, ok);
    for (size_t i = 0; i < count && !s->done && s->tries < TRIES && s->reads_left > 0; i++) {
        struct page_header h;
        struct as_ruby_page page;
        if (!ok[i] || words[i] % 16 != 0 || !as_target_mapping_at(s->target, words[i]) ||
            !read_header(s->target, words[i], &h) || !fits_layout(s->layout, &h, &page) || page.address != addresses[i])
            continue;
        s->tries++;
        uint64_t inside = objspace_of(s, &h);
        s->done = inside != 0 && find_array(s, inside);
    }
}

// Goes through the places in [start, end) where a page may begin, if there is memory.
static void visit_range(struct ruby_search *s, visit_fn *visit, uint64_t start, uint64_t end)
{
    struct as_target *t = s->target;
    uint64_t align = s->layout->align;
    uint64_t addresses[BATCH];
    uint8_t residency[STEP];
    size_t count = 0;
    if (!as_target_residency(t, start, end, residency, NULL))
        return;
    for (uint64_t at = (start + align - 1) & ~(align - 1); at < end && !s->done; at += align) {
        if (residency[(at - start) / t->page_size] & (AS_RES_PRESENT | AS_RES_SWAPPED | AS_RES_UNKNOWN))
            addresses[count++] = at;
        if (count == BATCH || (count > 0 && end - at <= align)) {
            visit(s, addresses, count);
            count = 0;
        }
    }
}

static void visit_all(struct ruby_search *s, visit_fn *visit)
{
    struct as_target *t = s->target;
    uint64_t step = (uint64_t)STEP * t->page_size;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        for (uint64_t at = m->start; is_likely(m) && at < m->end && !s->done && s->tries < TRIES;) {
            at = as_target_skip_missing(t, at) / t->page_size * t->page_size;
            at = at < m->end ? as_target_skip_absent(t, at, m->end) : m->end;
            uint64_t next = m->end - at < step ? m->end : at + step;
            if (at < m->end)
                visit_range(s, visit, at, next);
            at = next;
        }
    }
}

// That there is none is no failure; when the pages cannot be proven, out->pages is empty.
static bool search(struct as_target *t, struct as_ruby *out, struct as_error *err)
{
    size_t known;
    const struct as_ruby_layout *layouts = as_ruby_layouts(&known);
    struct as_error failed = {0};
    struct ruby_search count = {
        .target = t, .layout = &layouts[0], .reads_left = FREE_READS}; // whose places are those of all
    if (out->present)
        visit_all(&count, count_places);
    for (size_t i = 0; i < known && out->present && !out->proven && failed.code == AS_OK; i++) {
        struct ruby_search s = {
            .target = t, .layout = &layouts[i], .out = out, .err = &failed, .reads_left = count.reads_left};
        visit_all(&s, try_places);
        out->proven = s.done && failed.code == AS_OK;
        if (out->proven)
            out->releases = layouts[i].releases;
    }
    if (!out->proven)
        out->pages.count = 0;
    if (failed.code == AS_OK)
        return !out->proven || as_ruby_count_slots(t, out, err);
    if (err)
        *err = failed;
    return false;
}

// Makes the records; `resident` and `heap` are the ledger's to fill in.
static bool add_records(struct as_store *s, const struct as_ruby *ruby, struct as_error *err)
{
    if (!ruby->present)
        return true;
    if (!ruby->proven) {
        s->meta.ruby = AS_RUBY_UNPROVEN;
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "this process runs Ruby, but the pages of Ruby's own heap could not be identified with "
                      "certainty; they are counted in the other rows");
        return true;
    }
    s->meta.ruby = AS_RUBY_FOUND;
    s->meta.ruby_releases = as_strings_add(&s->strings, ruby->releases, strlen(ruby->releases));
    if (!as_vec_reserve(&s->ruby, ruby->pages.count, err))
        return false;
    AS_FOR_EACH(const struct as_ruby_page, page, &ruby->pages) {
        s->ruby.items[s->ruby.count++] = (struct as_ruby_page_record){
            .address = page->address,
            .resident = AS_UNKNOWN,
            .size = page->size,
            .slot_size = page->slot_size,
            .total_slots = page->total_slots,
            .free_slots = page->free_slots,
            .heap = UINT32_MAX,
            .first_slot = page->first_slot,
        };
    }
    if (!as_vec_reserve(&s->runtime_pages, ruby->kernel_pages.count, err))
        return false;
    for (size_t i = 0; i < ruby->kernel_pages.count; i++)
        s->runtime_pages.items[s->runtime_pages.count++] = ruby->kernel_pages.items[i];
    return true;
}

bool as_ruby_find(const struct as_finder_input *in)
{
    in->store->ruby_interpreter = as_interpreters_first(&in->malloc->interpreters, AS_INTERPRETER_RUBY);
    struct as_ruby ruby = {.present = in->store->ruby_interpreter != 0, .wants_kernel_pages = in->pages};
    bool ok = search(in->target, &ruby, in->err) && add_records(in->store, &ruby, in->err);
    AS_FREE_VECS(&ruby, pages, kernel_pages);
    return ok;
}
