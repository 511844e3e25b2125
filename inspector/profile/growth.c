// SPDX-License-Identifier: MIT
#include "profile/growth.h"
#include "base/memory.h"
#include "base/sort.h"
#include "profile/tables.h"

enum {
    SMALL = 1 << 16, // bytes: sizes below are counted in an array
    CLASSES = SMALL / AS_ALIGNMENT,
};

// --- How many of each size --------------------------------------------------------------------------------------------

struct size_counts {
    uint64_t *small; // how many of each small size
    AS_VEC(uint64_t) large;
    struct as_error *err;
};

static bool count_sizes(struct size_counts *c, const as_boundary_vec *boundaries)
{
    for (size_t i = 0; i < boundaries->count; i++) {
        const uint64_t size = as_boundary_size(boundaries, i);
        uint64_t *large;
        if (size != 0 && size < SMALL)
            c->small[size / AS_ALIGNMENT]++;
        else if (size != 0 && (large = as_vec_add(&c->large, c->err)))
            *large = size;
        else if (size != 0)
            return false;
    }
    return as_sort_u64(c->large.items, c->large.count, c->err);
}

// Sizes come ascending.
static bool add_count(as_chunk_count_vec *counts, uint64_t size, uint64_t count, struct as_error *err)
{
    if (counts->count > 0 && counts->items[counts->count - 1].size == size) {
        counts->items[counts->count - 1].count += count;
        return true;
    }
    return as_vec_push(counts, err, (struct as_chunk_count){size, count});
}

bool as_profile_count_sizes(const as_boundary_vec *boundaries, as_chunk_count_vec *counts, struct as_error *err)
{
    struct size_counts c = {.err = err};
    c.small = as_memory_map(CLASSES * sizeof *c.small, "the sizes of chunks", err);
    bool ok = c.small && count_sizes(&c, boundaries);
    for (uint64_t i = 0; ok && i < CLASSES; i++)
        ok = c.small[i] == 0 || add_count(counts, i * AS_ALIGNMENT, c.small[i], err);
    for (size_t i = 0; ok && i < c.large.count; i++)
        ok = add_count(counts, c.large.items[i], 1, err);
    as_memory_unmap(c.small, CLASSES * sizeof *c.small);
    as_vec_free(&c.large);
    return ok;
}

void as_profile_baseline_free(struct as_profile_baseline *b)
{
    as_vec_free(&b->sizes);
    as_vec_free(&b->types);
    as_vec_free(&b->strings);
}

// --- What grew --------------------------------------------------------------------------------------------------------

// A record for each size that was there at the beginning, or is now.
static bool join(const as_chunk_count_vec *before, const as_chunk_count_vec *after, as_profile_size_vec *sizes,
                 struct as_error *err)
{
    for (size_t i = 0, j = 0; i < before->count || j < after->count;) {
        const uint64_t was = i < before->count ? before->items[i].size : UINT64_MAX;
        const uint64_t is = j < after->count ? after->items[j].size : UINT64_MAX;
        struct as_profile_size_record *one = as_vec_add(sizes, err);
        if (!one)
            return false;
        one->size = was < is ? was : is;
        if (was <= is)
            one->before = before->items[i++].count;
        if (is <= was)
            one->after = after->items[j++].count;
    }
    return true;
}

struct sizes_of_growth {
    const struct as_profile_growing *g;
    as_profile_size_vec *sizes;
    uint32_t *places; // of small sizes among `sizes`
};

static bool open_growth(struct sizes_of_growth *r, struct as_error *err)
{
    r->places = as_memory_map(CLASSES * sizeof *r->places, "the sizes of chunks", err);
    for (size_t i = 0; r->places && i < r->sizes->count && r->sizes->items[i].size < SMALL; i++)
        r->places[r->sizes->items[i].size / AS_ALIGNMENT] = (uint32_t)i;
    return r->places != NULL;
}

// Each size of a chunk in use is there.
static struct as_profile_size_record *record_of(const struct sizes_of_growth *r, uint64_t size)
{
    const size_t place = size < SMALL ? r->places[size / AS_ALIGNMENT]
                                      : AS_PARTITION_POINT(0, r->sizes->count, at, r->sizes->items[at].size < size);
    return &r->sizes->items[place];
}

static uint64_t stands_for(const struct sizes_of_growth *r, uint64_t size)
{
    return size >= r->g->large ? 1 : r->g->page_rate;
}

static void count_recorded(const struct sizes_of_growth *r)
{
    for (size_t i = 0; i < r->g->boundaries->count; i++) {
        const uint64_t size = as_boundary_size(r->g->boundaries, i);
        if (size != 0 && r->g->id_of[i] != AS_PROFILE_NOBODY)
            record_of(r, size)->recorded += stands_for(r, size);
    }
}

// Never more than what was recorded: what no site allocated is no site's growth.
static double part_that_grew(const struct as_profile_size_record *of)
{
    if (of->after <= of->before || of->recorded == 0)
        return 0;
    const double net = (double)(of->after - of->before);
    return net < (double)of->recorded ? net / (double)of->recorded : 1;
}

static void share_out(const struct sizes_of_growth *r, struct as_profile_grown *grown)
{
    for (size_t i = 0; i < r->g->boundaries->count; i++) {
        const uint64_t size = as_boundary_size(r->g->boundaries, i);
        if (size == 0 || r->g->id_of[i] == AS_PROFILE_NOBODY)
            continue;
        const double part = part_that_grew(record_of(r, size)) * (double)stands_for(r, size);
        grown[r->g->id_of[i]].count += part;
        grown[r->g->id_of[i]].bytes += part * (double)size;
    }
}

static void keep_changed(as_profile_size_vec *sizes)
{
    size_t kept = 0;
    for (size_t i = 0; i < sizes->count; i++)
        if (sizes->items[i].before != sizes->items[i].after || sizes->items[i].recorded != 0)
            sizes->items[kept++] = sizes->items[i];
    sizes->count = kept;
}

bool as_profile_growth_make(const struct as_profile_growing *g, struct as_store *s, struct as_profile_grown *grown,
                            struct as_error *err)
{
    struct sizes_of_growth r = {.g = g, .sizes = &s->profile_sizes};
    as_chunk_count_vec after = {0};
    bool ok = as_profile_count_sizes(g->boundaries, &after, err) && join(&g->baseline->sizes, &after, r.sizes, err) &&
              open_growth(&r, err);
    if (ok) {
        count_recorded(&r);
        share_out(&r, grown);
        keep_changed(r.sizes);
    }
    as_memory_unmap(r.places, CLASSES * sizeof *r.places);
    as_vec_free(&after);
    return ok;
}

bool as_profile_note_chunks(const struct as_profile_growing *g, as_boundary_vec *noted, struct as_error *err)
{
    noted->count = 0;
    for (size_t i = 0; i < g->boundaries->count; i++) {
        const uint64_t size = as_boundary_size(g->boundaries, i);
        const enum as_noted how = g->id_of[i] == AS_PROFILE_NOBODY ? AS_NOT_NOTED
                                  : size >= g->large               ? AS_NOTED_LARGE
                                                                   : AS_NOTED_ON_PAGE;
        if (size != 0 && !as_vec_push(noted, err, g->boundaries->items[i] | (uint64_t)how))
            return false;
    }
    return as_sort_u64(noted->items, noted->count, err);
}
