// SPDX-License-Identifier: MIT
#include "ledger/page_users.h"
#include "base/memory.h"
#include "graph/section_owners.h"
#include "graph/types.h"

#include <stdlib.h>

enum {
    MOST_USERS = 1 << 16,
    MOST_LEAKS = 10000, // and one for all others
    MOST_ON_PAGE = 8,   // users that a page has in graph_places
};

struct counting {
    const struct as_holding *h;
    struct as_store *store;
    struct as_error *err;
    uint32_t *owner_of;   // by node: index in graph_owners
    struct as_keys leaks; // by type and size: index in the list of leaks
    struct as_keys pairs; // type and owner, without a leak; the number of each is a part of the next keys
    struct as_keys keys;  // of users; the first is nobody's
    struct as_page_users users;
};

static uint64_t leak_key(uint32_t type, uint64_t size)
{
    return size / AS_ALIGNMENT << 24 | type;
}

static uint32_t record_of_leak(uint32_t leak)
{
    return leak < MOST_LEAKS ? leak : MOST_LEAKS;
}

static void add_tally(struct as_tally *to, const struct as_leak_sum *from)
{
    to->count += from->count;
    to->bytes += from->bytes;
}

static bool write_leaks(struct counting *c)
{
    for (size_t i = 0; i < c->h->leaks->groups.count; i++) {
        const struct as_leak_group *group = &c->h->leaks->groups.items[i];
        struct as_graph_leak_record *record =
            i <= MOST_LEAKS ? as_vec_add(&c->store->graph_leaks, c->err) : &c->store->graph_leaks.items[MOST_LEAKS];
        if (!record || as_key_add(&c->leaks, leak_key(group->type, group->size)) == AS_NO_KEY)
            return record ? as_fail(c->err, AS_NO_MEMORY, "no memory for the kinds of lost chunks") : false;
        add_tally(&record->direct, &group->sums[AS_LEAK_DIRECT]);
        add_tally(&record->indirect, &group->sums[AS_LEAK_INDIRECT]);
        add_tally(&record->suspects, &group->sums[AS_LEAK_SUSPECT]);
        bool others = i >= MOST_LEAKS || group->size == 0;
        record->flags = others ? AS_GRAPH_OTHERS : 0;
        record->type = others ? UINT32_MAX : as_type_record_of(c->h->types, group->type);
        record->size = others ? 0 : group->size;
        record->example = others ? 0 : group->example;
    }
    return true;
}

// The owner at the top of the dominator tree, of each node.
static bool find_owners(struct counting *c)
{
    const struct as_dominators *d = c->h->dominators;
    const struct as_owner_records *owners = c->h->owners;
    size_t places = (size_t)d->count + 1;
    uint32_t *top = as_memory_map(places * sizeof *top, "the owners of chunks", c->err);
    c->owner_of = as_memory_map(((size_t)d->nodes + 1) * sizeof *c->owner_of, "the owners of chunks", c->err);
    if (top && c->owner_of) {
        for (uint32_t node = 0; node < d->nodes; node++)
            c->owner_of[node] = owners->lost;
        for (uint32_t place = 1; place < d->count; place++) {
            uint32_t vertex = d->vertex[place];
            bool owner = vertex < d->owners;
            top[place] = owner                   ? owners->of_owner.items[vertex]
                         : d->parent[place] == 0 ? owners->several
                                                 : top[d->parent[place]];
            if (!owner)
                c->owner_of[vertex - d->owners] = top[place];
        }
    }
    as_memory_unmap(top, places * sizeof *top);
    return top && c->owner_of;
}

static bool open_counting(struct counting *c)
{
    struct as_graph_page_user_record *others = as_vec_add(&c->store->graph_page_users, c->err);
    if (!others || !as_keys_open(&c->leaks, UINT16_MAX + 1, c->err) || !as_keys_open(&c->pairs, MOST_USERS, c->err) ||
        !as_keys_open(&c->keys, MOST_USERS, c->err))
        return false;
    *others = (struct as_graph_page_user_record){
        .type = UINT32_MAX, .owner = UINT32_MAX, .leak = UINT32_MAX, .flags = AS_GRAPH_OTHERS};
    return as_page_users_open(&c->users, MOST_USERS + 1) && as_key_add(&c->keys, UINT64_MAX) == 0 && find_owners(c) &&
           write_leaks(c);
}

static void close_counting(struct counting *c)
{
    as_memory_unmap(c->owner_of, ((size_t)c->h->dominators->nodes + 1) * sizeof *c->owner_of);
    as_keys_close(&c->leaks);
    as_keys_close(&c->pairs);
    as_keys_close(&c->keys);
    as_page_users_close(&c->users);
}

// The user of a chunk; 0, the others, where there is no room.
static uint32_t user_of(struct counting *c, const struct as_used_chunk *chunk)
{
    uint32_t number = as_graph_type(c->h->graph, chunk->node);
    uint32_t type = as_type_record_of(c->h->types, number), owner = c->owner_of[chunk->node], leak = UINT32_MAX;
    if (c->h->leaks->of_node[chunk->node] != AS_LEAK_NONE) {
        leak = as_key_find(&c->leaks, leak_key(number, chunk->size));
        leak = record_of_leak(leak == AS_NO_KEY ? as_key_find(&c->leaks, leak_key(0, 0)) : leak);
    }
    uint32_t pair = as_key_add(&c->pairs, (uint64_t)type << 32 | owner);
    uint32_t user = pair == AS_NO_KEY ? 0 : as_key_add(&c->keys, (uint64_t)pair << 32 | leak);
    if (user == AS_NO_KEY)
        return 0;
    if (user == c->store->graph_page_users.count) {
        if (!as_vec_push(&c->store->graph_page_users, NULL,
                         (struct as_graph_page_user_record){.type = type, .owner = owner, .leak = leak}))
            return 0;
    }
    return user < c->store->graph_page_users.count ? user : 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct as_page_user *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->user < y->user ? -1 : x->user > y->user;
}

static struct as_pinned *pinned_by_type(const struct counting *c, uint32_t user)
{
    uint32_t type = c->store->graph_page_users.items[user].type;
    return type < c->store->graph_types.count ? &c->store->graph_types.items[type].pinned : NULL;
}

static struct as_pinned *pinned_by_owner(const struct counting *c, uint32_t user)
{
    uint32_t owner = c->store->graph_page_users.items[user].owner;
    return &c->store->graph_owners.items[owner < c->store->graph_owners.count ? owner : c->h->owners->others].pinned;
}

static struct as_pinned *pinned_by_user(const struct counting *c, uint32_t user)
{
    return &c->store->graph_page_users.items[user].pinned;
}

// Counts a page with stranded bytes for types, owners or users: for one alone, or for each its part.
static void keep(const struct counting *c, const struct as_used_page *page,
                 struct as_pinned *(*pinned)(const struct counting *c, uint32_t user))
{
    bool alone = true;
    for (size_t i = 1; i < page->users; i++)
        alone &= pinned(c, page->here[i].user) == pinned(c, page->here[0].user);
    struct as_pinned *first = pinned(c, page->here[0].user);
    if (alone && first) {
        first->pages++;
        first->stranded += page->stranded;
        return;
    }
    uint64_t left = page->stranded;
    for (size_t i = 0; i < page->users; i++) {
        uint64_t part = i + 1 < page->users ? page->stranded / page->chunks * page->here[i].count : left;
        struct as_pinned *of = pinned(c, page->here[i].user);
        if (of)
            of->part += part;
        left -= part;
    }
}

static bool count_page(void *context, const struct as_used_page *page)
{
    struct counting *c = context;
    if (page->page > UINT32_MAX - 1)
        return true;
    qsort(page->here, page->users, sizeof *page->here, by_bytes);
    if (page->stranded > 0) {
        keep(c, page, pinned_by_type);
        keep(c, page, pinned_by_owner);
        keep(c, page, pinned_by_user);
    }
    for (size_t i = 0; i < page->users && i < MOST_ON_PAGE; i++) {
        if (!as_vec_push(&c->store->graph_places, c->err,
                         (struct as_graph_place_record){(uint32_t)page->page, page->here[i].user}))
            return false;
    }
    return true;
}

static bool put_chunk(struct counting *c, const struct as_used_chunk *chunk)
{
    uint32_t user = user_of(c, chunk);
    struct as_graph_page_user_record *record = &c->store->graph_page_users.items[user];
    record->count++;
    record->bytes += chunk->size;
    return as_page_users_put(&c->users, user, chunk->address, chunk->size);
}

static bool put_chunks(struct counting *c)
{
    bool ok = true;
    for (struct as_used_cursor cursor = as_used_begin(&c->h->graph->index); ok && as_used_next(&cursor);)
        if (as_page_users_heap(&c->users, cursor.chunk.address))
            ok = put_chunk(c, &cursor.chunk);
    return ok && as_page_users_end(&c->users);
}

bool as_page_users_make(const struct as_holding *h, struct as_store *s, struct as_error *err)
{
    struct counting c = {.h = h, .store = s, .err = err};
    c.users = (struct as_page_users){
        .store = s, .page_size = s->meta.page_size, .take = count_page, .context = &c, .err = err};
    bool ok = open_counting(&c) && put_chunks(&c);
    close_counting(&c);
    return ok;
}
