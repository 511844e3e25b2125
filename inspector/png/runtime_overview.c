// SPDX-License-Identifier: MIT
// CPython's arenas and Ruby's pages at a glance: an overview as of an arena, in whose terms their pages are put.
#include "png/pictures.h"

#include "base/vec.h"

// The pages stand in a dump's order: by address. Each run of neighbours becomes a heap.
struct runs {
    AS_VEC(struct as_heap_record) heaps;
    AS_VEC(struct as_page_record) pages;
};

static uint8_t state_of(const struct as_runtime_page_record *page)
{
    if (page->residency & AS_RES_UNKNOWN)
        return AS_PAGE_UNKNOWN;
    if (page->residency & AS_RES_PRESENT)
        return page->in_use > 0 ? AS_PAGE_USED : AS_PAGE_STRANDED;
    if (page->residency & AS_RES_SWAPPED)
        return AS_PAGE_SWAPPED;
    return page->in_use > 0 ? AS_PAGE_UNTOUCHED : AS_PAGE_RETURNED;
}

// Blocks in use and free as chunks would be; what is neither is the runtime's own. The report's page has the same rule (map/areas.py).
static struct as_page_record as_page(const struct as_runtime_page_record *page, uint32_t page_size)
{
    uint32_t units = page_size / AS_RUNTIME_UNIT;
    struct as_page_record out = {.in_use = page->in_use,
                                 .binned = page->free,
                                 .metadata = (uint16_t)(units - page->in_use - page->free),
                                 .residency = page->residency,
                                 .state = state_of(page)};
    if (out.state ==
        AS_PAGE_RETURNED) { // nothing is known of it but that it is absent: no header was ever written there
        out.binned = (uint16_t)(out.binned + out.metadata);
        out.metadata = 0;
    }
    return out;
}

static bool add_page(struct runs *r, const struct as_runtime_page_record *page, uint32_t page_size,
                     struct as_error *err)
{
    struct as_heap_record *heap = r->heaps.count > 0 ? &r->heaps.items[r->heaps.count - 1] : NULL;
    if (!heap || heap->end != page->address) {
        heap = as_vec_add(&r->heaps, err);
        if (!heap)
            return false;
        *heap = (struct as_heap_record){.start = page->address, .end = page->address, .first_page = r->pages.count};
    }
    if (!as_vec_push(&r->pages, err, as_page(page, page_size)))
        return false;
    heap->end += page_size;
    heap->page_count++;
    return true;
}

static bool draw_runtime(struct as_drawing *d, uint32_t kind, const char *name, const char *title, struct as_error *err)
{
    struct runs r = {0};
    bool ok = true;
    for (uint64_t i = 0; i < d->view->runtime_page_count && ok; i++)
        if (d->view->runtime_pages[i].kind == kind)
            ok = add_page(&r, &d->view->runtime_pages[i], d->view->meta->page_size, err);
    struct as_view view = *d->view;
    view.heaps = r.heaps.items;
    view.pages = r.pages.items;
    view.heap_count = r.heaps.count;
    view.page_count = r.pages.count;
    struct as_drawing drawing = *d;
    drawing.view = &view;
    ok = ok && (r.heaps.count == 0 || as_draw_overview(&drawing, 0, r.heaps.count, name, title, err));
    AS_FREE_VECS(&r, heaps, pages);
    return ok;
}

bool as_draw_runtimes(struct as_drawing *d, struct as_error *err)
{
    return draw_runtime(d, AS_RUNTIME_CPYTHON, "python-overview", "Python's arenas", err) &&
           draw_runtime(d, AS_RUNTIME_RUBY, "ruby-overview", "Ruby's pages", err);
}
