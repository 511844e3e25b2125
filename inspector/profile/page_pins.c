// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "ledger/page_users.h"
#include "malloc/trim_rules.h"
#include "profile/parts.h"

enum {
    MOST_ON_PAGE = 8,             // sites that a page has in profile_places
    FIRST = 2 * MOST_ON_PAGE + 1, // users among which these are: a site is at most two, and one is nobody
};

// A user on a page: nobody who is known, or a site's small or large chunks, which stand for different numbers of chunks.
enum { NOBODY = 0 };

// Chunks of one site, side by side or with nothing but free chunks between them: freed, they would be one.
struct free_run {
    uint32_t site; // UINT32_MAX: there is none
    uint64_t start;
};

struct keeping {
    const struct as_site_keeping *k;
    struct as_store *store;
    struct as_error *err;
    struct as_page_users users;
    uint32_t *site_of; // of each context; UINT32_MAX: it has none
    struct free_run run;
    const struct as_heap_record *heap; // of the run
    uint64_t free_since;               // from here to the next chunk all is free; 0: nothing is
};

static struct as_profile_pin_record *pinned_by(const struct keeping *k, uint32_t site)
{
    return &k->store->profile_pins.items[site];
}

// --- Pages ------------------------------------------------------------------------------------------------------------

static uint32_t site_of(uint32_t user)
{
    return (user - 1) / 2;
}

static uint64_t weight_of(const struct keeping *k, uint32_t user)
{
    return user % 2 == 1 ? k->k->page_rate : 1;
}

// What comes first among a page's users: most bytes; of as many, the lowest number.
struct page_order {
    uint64_t first[FIRST]; // keys, descending
    uint32_t count;
    uint64_t last; // of all keys, also of those that are not among the first
};

static uint64_t key_of(const struct as_page_user *user)
{
    return user->bytes << 32 | (UINT32_MAX - user->user); // fewer than 2^32 bytes are on a page
}

static uint32_t site_of_user(uint64_t key)
{
    return UINT32_MAX - (uint32_t)key;
}

static void put_in_order(struct page_order *o, uint64_t key, uint32_t most)
{
    uint32_t at = o->count < most ? o->count++ : most;
    if (at == most && key < o->first[--at])
        return;
    for (; at > 0 && o->first[at - 1] < key; at--)
        o->first[at] = o->first[at - 1];
    o->first[at] = key;
}

// The first of some 40 users is what is inspected, and the last. To sort all of them took a quarter of the time for a profile.
static void order(const struct keeping *k, const struct as_used_page *page, struct page_order *o)
{
    uint32_t most = k->k->page_rate > 1 ? FIRST : MOST_ON_PAGE + 1; // without a rate, a site is one user
    o->count = 0;
    o->first[0] = 0;
    o->last = UINT64_MAX;
    for (size_t i = 0; i < page->users; i++) {
        uint64_t key = key_of(&page->here[i]);
        put_in_order(o, key, most);
        o->last = key < o->last ? key : o->last;
    }
}

static void add_stranded(const struct keeping *k, uint32_t user, uint64_t bytes)
{
    if (user != NOBODY)
        pinned_by(k, site_of(user))->stranded += bytes * weight_of(k, user);
}

// Each chunk in use on a page has an equal part of its stranded bytes, and the last user what is left; where all are of one site, the
// site keeps the page.
static void share(const struct keeping *k, const struct as_used_page *page, const struct page_order *o)
{
    uint64_t part = page->stranded / page->chunks, left = page->stranded;
    uint32_t first = site_of_user(o->first[0]), last = site_of_user(o->last);
    bool alone = first != NOBODY;
    AS_FOR_ITEMS(const struct as_page_user, user, page->here, page->users) {
        alone = alone && user->user != NOBODY && site_of(user->user) == site_of(first);
        if (user->user == last)
            continue;
        add_stranded(k, user->user, part * user->count);
        left -= part * user->count;
    }
    add_stranded(k, last, left);
    if (alone) {
        pinned_by(k, site_of(first))->pages++;
        pinned_by(k, site_of(first))->pages_stranded += page->stranded;
    }
}

static bool add_places(const struct keeping *k, const struct as_used_page *page, const struct page_order *o)
{
    uint32_t sites[MOST_ON_PAGE], count = 0;
    for (uint32_t i = 0; i < o->count && count < MOST_ON_PAGE; i++) {
        if (site_of_user(o->first[i]) == NOBODY)
            continue;
        sites[count] = site_of(site_of_user(o->first[i]));
        bool known = false; // by its chunks of the other kind
        for (uint32_t j = 0; j < count; j++)
            known |= sites[j] == sites[count];
        if (known)
            continue;
        if (!as_vec_push(&k->store->profile_places, k->err,
                         (struct as_profile_place_record){(uint32_t)page->page, sites[count++]}))
            return false;
    }
    return true;
}

static bool count_page(void *context, const struct as_used_page *page)
{
    struct keeping *k = context;
    struct page_order o;
    if (page->page > UINT32_MAX - 1)
        return true;
    order(k, page, &o);
    if (page->stranded > 0)
        share(k, page, &o);
    uint32_t first = site_of_user(o.first[0]);
    if (k->store->pages.items[page->page].state == AS_PAGE_PINNED && page->chunks == 1 && first != NOBODY)
        pinned_by(k, site_of(first))->pinned += weight_of(k, first);
    return add_places(k, page, &o);
}

// --- What comes back --------------------------------------------------------------------------------------------------

static const struct as_page_record *page_at(const struct keeping *k, uint64_t address)
{
    uint64_t page_size = k->k->page_size;
    uint64_t index = (address - k->heap->start / page_size * page_size) / page_size;
    return address >= k->heap->start / page_size * page_size && index < k->heap->page_count
               ? &k->store->pages.items[k->heap->first_page + index]
               : NULL;
}

// Resident bytes of the whole pages in a range that do not come back anyhow.
static uint64_t resident(const struct keeping *k, uint64_t from, uint64_t to)
{
    uint64_t page_size = k->k->page_size, bytes = 0;
    for (uint64_t at = as_align_up(from, page_size); at < to && to - at >= page_size; at += page_size) {
        const struct as_page_record *page = page_at(k, at);
        if (page && page->residency & AS_RES_PRESENT && page->state != AS_PAGE_RELEASABLE)
            bytes += page_size;
    }
    return bytes;
}

static void end_run(struct keeping *k, uint64_t end)
{
    if (k->run.site != UINT32_MAX)
        pinned_by(k, k->run.site)->returned += resident(k, as_mtrim_start(k->run.start), end);
    k->run.site = UINT32_MAX;
}

// What is neither in use nor free in malloc_trim's sense ends a run. What joins a thread arena's top does not come back; what joins the
// main arena's does, with all of the top: so its first page does, too.
static void pass_gap(struct keeping *k, uint64_t from, uint64_t to, bool is_free)
{
    uint64_t page_size = k->k->page_size, top = 0;
    if (is_free) {
        k->free_since = from;
        return;
    }
    for (uint64_t at = as_align_down(from, page_size); at < to; at += page_size) {
        const struct as_page_record *page = page_at(k, at);
        top += page ? (uint64_t)page->top * AS_UNIT : 0;
    }
    if (top > 0 && k->heap->kind != AS_HEAP_BRK)
        k->run.site = UINT32_MAX;
    end_run(k, top == to - from ? to : from);
    k->free_since = 0;
}

static void pass_chunk(struct keeping *k, uint64_t at, uint32_t site)
{
    if (site != k->run.site) {
        end_run(k, at);
        k->run = (struct free_run){.site = site, .start = k->free_since != 0 ? k->free_since : at};
    }
    if (k->heap->kind == AS_HEAP_MMAPPED) { // free() unmaps all of it
        if (site != UINT32_MAX)
            pinned_by(k, site)->returned += resident(k, k->heap->start, k->heap->end);
        k->run.site = UINT32_MAX;
    }
    k->free_since = 0;
}

// --- All of it --------------------------------------------------------------------------------------------------------

static void begin_heap(struct keeping *k, uint64_t start)
{
    k->run.site = UINT32_MAX;
    k->free_since = 0;
    k->heap = as_page_users_heap(&k->users, start);
}

static bool pass(struct keeping *k, size_t i)
{
    uint64_t tagged = k->k->boundaries->items[i], at = as_untagged(tagged);
    if (tagged & AS_HEAP_BEGINS) {
        begin_heap(k, at);
        return true;
    }
    bool last = i + 1 == k->k->boundaries->count || k->k->boundaries->items[i + 1] & AS_HEAP_BEGINS;
    uint64_t end = last ? (k->heap ? k->heap->end : at) : as_untagged(k->k->boundaries->items[i + 1]);
    if (!k->heap || end < at)
        return true;
    if (tagged & AS_GAP) {
        pass_gap(k, at, end, tagged & AS_GAP_FREE);
        return true;
    }
    uint32_t site = k->site_of[k->k->id_of[i]];
    pass_chunk(k, at, site);
    uint32_t user = site == UINT32_MAX ? NOBODY : 1 + 2 * site + (end - at >= k->k->large && k->k->page_rate > 1);
    return as_page_users_put(&k->users, user, at, end - at);
}

static bool open_keeping(struct keeping *k)
{
    size_t sites = k->store->profile_sites.count;
    k->site_of = as_memory_map(k->k->ids * sizeof *k->site_of + 1, "the sites of chunks", k->err);
    if (!k->site_of || sites > (UINT32_MAX - 1) / 2 || !as_vec_reserve(&k->store->profile_pins, sites, k->err) ||
        !as_page_users_open(&k->users, (uint32_t)(1 + 2 * sites)))
        return false;
    for (uint64_t id = 0; id < k->k->ids; id++)
        k->site_of[id] = UINT32_MAX;
    for (size_t i = 0; i < sites; i++) {
        k->store->profile_pins.items[i] = (struct as_profile_pin_record){0};
        k->site_of[k->k->id_of_site[i]] = (uint32_t)i;
    }
    k->store->profile_pins.count = sites;
    return true;
}

// Where not every page is watched: a page of which some chunks have no known site may be kept by these.
static void forget_what_is_alone(struct keeping *k)
{
    AS_FOR_EACH_WHILE(k->k->page_rate != 1, struct as_profile_pin_record, pinned, &k->store->profile_pins)
        pinned->pages = pinned->pages_stranded = pinned->returned = AS_UNKNOWN;
}

bool as_page_pins_make(const struct as_site_keeping *keeping, struct as_store *s, struct as_error *err)
{
    struct keeping k = {.k = keeping, .store = s, .err = err, .run.site = UINT32_MAX};
    k.users = (struct as_page_users){
        .store = s, .page_size = keeping->page_size, .take = count_page, .context = &k, .err = err};
    bool ok = open_keeping(&k);
    for (size_t i = 0; ok && i < keeping->boundaries->count; i++)
        ok = pass(&k, i);
    ok = ok && as_page_users_end(&k.users);
    forget_what_is_alone(&k);
    as_page_users_close(&k.users);
    as_memory_unmap(k.site_of, keeping->ids * sizeof *k.site_of + 1);
    return ok;
}
