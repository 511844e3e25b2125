// SPDX-License-Identifier: MIT
#include "profile/thread_shares.h"
#include "base/number_map.h"
#include "base/sort.h"

#include <string.h>

// What two contexts have in common if they are of one stack; not 0.
static uint64_t key_of(const struct as_profile_context *c)
{
    return (uint64_t)c->stack << 2 | (uint64_t)c->complete << 1 | 1;
}

static bool is_empty(const struct as_profile_merging *m, uint64_t id)
{
    return m->live[id].count == 0 && m->live[id].samples == 0;
}

#ifndef AS_AGENT
static bool add_share(const struct as_profile_merging *m, uint64_t id, uint32_t base, struct as_error *err)
{
    const struct as_profile_context *c = &m->contexts[id];
    const struct as_profile_live *has = &m->live[id];
    if (is_empty(m, id))
        return true;
    struct as_profile_share_record *share = as_vec_add(&m->store->profile_shares, err);
    if (!share)
        return false;
    // Rounded so that the shares add up to what is rounded of the site.
    uint64_t before = base != id ? m->live[base].allocated : 0;
    bool known = c->thread > 0 && c->thread <= m->store->profile_threads.count;
    *share = (struct as_profile_share_record){.site = base,
                                              .thread = known ? c->thread - 1U : UINT32_MAX,
                                              .count = has->count,
                                              .bytes = has->bytes,
                                              .alloc_count =
                                                  as_profile_whole(before + has->allocated) - as_profile_whole(before),
                                              .alloc_bytes = has->allocated_bytes};
    return true;
}
#else
static bool add_share(const struct as_profile_merging *m, uint64_t id, uint32_t base, struct as_error *err)
{
    (void)m, (void)id, (void)base, (void)err;
    return true;
}
#endif

static void move(const struct as_profile_merging *m, uint64_t id, uint32_t base)
{
    as_profile_live_add(&m->live[base], &m->live[id]);
    m->live[id] = (struct as_profile_live){0};
    m->contexts[id].next = base; // which nobody needs any more
}

// A context's next becomes its base.
bool as_profile_merge(const struct as_profile_merging *m, struct as_error *err)
{
    struct as_number_map bases = {0};
    bool ok = true;
    for (uint64_t id = AS_PROFILE_FIRST; ok && id < m->count; id++) {
        uint64_t key = key_of(&m->contexts[id]);
        uint32_t base = as_number_map_get(&bases, key);
        m->contexts[id].next = (uint32_t)id;
        if (is_empty(m, id))
            continue;
        ok = (base != 0 || as_number_map_put(&bases, key, (uint32_t)id, err)) &&
             add_share(m, id, base ? base : (uint32_t)id, err);
        if (ok && base)
            move(m, id, base);
    }
    as_number_map_free(&bases);
    for (uint64_t i = 0; ok && i < m->chunks; i++)
        if (m->id_of[i] >= AS_PROFILE_FIRST)
            m->id_of[i] = m->contexts[m->id_of[i]].next;
    return ok;
}

#ifndef AS_AGENT
static bool sort_by_site(struct as_store *s, struct as_error *err)
{
    enum { INDEX_BITS = 32 };
    size_t count = s->profile_shares.count;
    AS_VEC(uint64_t) keys = {0};
    AS_VEC(struct as_profile_share_record) sorted = {0};
    bool ok = as_vec_reserve(&keys, count, err) && as_vec_reserve(&sorted, count, err);
    for (size_t i = 0; ok && i < count; i++)
        keys.items[i] = (uint64_t)s->profile_shares.items[i].site << INDEX_BITS | i;
    ok = ok && as_sort_u64(keys.items, count, err);
    for (size_t i = 0; ok && i < count; i++)
        sorted.items[i] = s->profile_shares.items[keys.items[i] & UINT32_MAX];
    if (ok && count > 0)
        memcpy(s->profile_shares.items, sorted.items, count * sizeof *sorted.items);
    as_vec_free(&keys);
    as_vec_free(&sorted);
    return ok;
}

bool as_profile_shares_end(struct as_store *s, const uint64_t *id_of_site, struct as_error *err)
{
    struct as_number_map sites = {0};
    bool ok = true;
    size_t kept = 0;
    for (size_t i = 0; ok && i < s->profile_sites.count; i++)
        ok = as_number_map_put(&sites, id_of_site[i], (uint32_t)i + 1, err);
    for (size_t i = 0; ok && i < s->profile_shares.count; i++) {
        struct as_profile_share_record share = s->profile_shares.items[i];
        uint32_t site = as_number_map_get(&sites, share.site);
        if (site == 0)
            continue; // a stack that does not hold
        share.site = site - 1;
        s->profile_shares.items[kept++] = share;
    }
    s->profile_shares.count = kept;
    as_number_map_free(&sites);
    return ok && sort_by_site(s, err);
}

// The last with an id is the one that may be there: a process gives no id to two at a time.
static void find_living(struct as_store *s, struct as_target *t, const struct as_profile_head *head,
                        const uint32_t *pids)
{
    for (size_t i = s->profile_threads.count; i-- > 0;) {
        struct as_profile_thread_record *one = &s->profile_threads.items[i];
        bool here = head->pid == (uint64_t)t->pid && pids[i] == head->pid;
        for (size_t j = i + 1; here && j < s->profile_threads.count; j++)
            here = s->profile_threads.items[j].tid != one->tid;
        one->flags = here ? AS_PROFILE_THREAD_HERE : 0;
    }
}

bool as_profile_add_threads(struct as_target *t, const struct as_profile_head *head, struct as_store *s,
                            struct as_error *err)
{
    uint32_t pids[AS_PROFILE_MOST_THREADS];
    uint64_t used = head->threads.used < head->threads.size ? head->threads.used : head->threads.size;
    for (uint64_t i = 1; i < used && i < AS_PROFILE_MOST_THREADS; i++) {
        struct as_profile_thread one = {0};
        struct as_profile_thread_record *record = as_vec_add(&s->profile_threads, err);
        if (!record)
            return false;
        as_target_read(t, head->self + head->threads.offset + i * sizeof one, &one, sizeof one);
        record->tid = one.tid; // 0: it is being written, or was not read
        pids[i - 1] = one.pid;
    }
    find_living(s, t, head, pids);
    return true;
}
#endif
