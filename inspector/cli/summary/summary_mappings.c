// SPDX-License-Identifier: MIT
// What the summary says of the mappings, beside malloc's and the runtimes' memory in them: anonymous ones each by itself, those of
// files and of shared memory by name.
#include "cli/json.h"
#include "cli/summary/mappings_left.h"
#include "cli/summary/summary.h"
#include "ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN = 20 };

// A mapping; or, of all mappings of one name, what is in one row.
struct mapping_entry {
    uint64_t bytes;  // what is left; AS_UNKNOWN
    uint64_t length; // bytes of address space, to order those by of which nothing else is known
    uint64_t index;  // of the mapping, or of the first one
    uint64_t count;  // how many mappings
    int row;
};

// The largest entries, and the sum of the others.
struct largest_mappings {
    struct mapping_entry shown[SHOWN];
    uint32_t count;
    uint64_t others, other_bytes;
};

static uint64_t known(uint64_t bytes)
{
    return bytes == AS_UNKNOWN ? 0 : bytes;
}

static bool is_larger(const struct mapping_entry *a, const struct mapping_entry *b)
{
    if (known(a->bytes) != known(b->bytes))
        return known(a->bytes) > known(b->bytes);
    return a->length > b->length;
}

static void add_entry(struct largest_mappings *l, struct mapping_entry entry)
{
    if (entry.bytes == 0)
        return;
    uint32_t at = l->count;
    while (at > 0 && is_larger(&entry, &l->shown[at - 1]))
        at--;
    if (l->count == SHOWN) {
        struct mapping_entry out = at == SHOWN ? entry : l->shown[SHOWN - 1];
        l->others += out.count;
        l->other_bytes = as_add(l->other_bytes, out.bytes);
        if (at == SHOWN)
            return;
    } else {
        l->count++;
    }
    memmove(&l->shown[at + 1], &l->shown[at], (l->count - at - 1) * sizeof l->shown[0]);
    l->shown[at] = entry;
}

static uint64_t length_of(const struct as_mapping_record *m)
{
    return m->end > m->start ? m->end - m->start : 0;
}

static void add_to_entry(struct mapping_entry *entry, const struct as_mapping_record *m, uint64_t bytes)
{
    entry->count += bytes != 0;
    entry->bytes = as_add(entry->bytes, bytes);
    entry->length = as_add(entry->length, length_of(m));
}

static void put_rest(struct as_json *j, const struct largest_mappings *l)
{
    as_json_counts(j, "rest", l->others, l->other_bytes);
}

static void put_mapping(struct as_json *j, const struct as_view *v, const struct as_mappings_left *left, uint64_t index)
{
    const struct as_mapping_record *m = &v->mappings[index];
    const struct as_may_be is = as_mapping_may_be(v, left, index);
    char protection[5];
    as_json_object(j, NULL);
    as_json_address(j, "address", m->start);
    as_json_number(j, "size", length_of(m));
    as_json_number(j, "resident", m->rss);
    as_json_number(j, "bytes", left->left.items[index]);
    as_json_string(j, "row", as_row_words[as_mapping_row(m)].name);
    as_json_string(j, "protection", as_format_protection(m->prot, protection));
    as_json_string(j, "name", as_string_or_null(v, m->path));
    as_json_string(j, "may_be", is.kind);
    as_json_string(j, "evidence", is.kind ? is.evidence : NULL);
    as_json_object_end(j);
}

static void put_stacks(struct as_json *j, const struct mapping_entry *stacks)
{
    as_json_object(j, "stacks_without_thread");
    as_json_number(j, "count", stacks->count);
    as_json_number(j, "size", stacks->length);
    as_json_number(j, "bytes", stacks->bytes);
    as_json_object_end(j);
}

static void put_anonymous(struct as_json *j, const struct as_view *v, const struct as_mappings_left *left)
{
    struct largest_mappings l = {0};
    struct mapping_entry stacks = {0};
    for (uint64_t i = 0; i < v->mapping_count; i++) {
        const struct as_mapping_record *m = &v->mappings[i];
        int row = as_mapping_row(m);
        if (row != AS_ROW_other_anon && row != AS_ROW_unknown)
            continue;
        add_entry(&l, (struct mapping_entry){left->left.items[i], length_of(m), i, 1, row});
        if (left->left.items[i] != 0 && as_mapping_may_be(v, left, i).stack_without_thread)
            add_to_entry(&stacks, m, left->left.items[i]);
    }
    as_json_object(j, "anonymous");
    as_json_array(j, "largest");
    for (uint32_t i = 0; i < l.count; i++)
        put_mapping(j, v, left, l.shown[i].index);
    as_json_array_end(j);
    put_rest(j, &l);
    put_stacks(j, &stacks);
    as_json_number(j, "copies_of_files", v->totals->ledger.file_copies);
    as_json_object_end(j);
}

static int by_name(const void *a, const void *b, void *context)
{
    const struct as_view *v = context;
    const struct as_mapping_record *x = &v->mappings[*(const uint32_t *)a], *y = &v->mappings[*(const uint32_t *)b];
    int row = as_mapping_row(x) - as_mapping_row(y);
    int order = row || x->path == y->path ? row : strcmp(as_view_string(v, x->path), as_view_string(v, y->path));
    return order ? order
                 : (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static bool same_name(const struct as_view *v, uint32_t a, uint32_t b)
{
    const struct as_mapping_record *x = &v->mappings[a], *y = &v->mappings[b];
    return as_mapping_row(x) == as_mapping_row(y) &&
           strcmp(as_view_string(v, x->path), as_view_string(v, y->path)) == 0;
}

// Copies that the process has made of a file's pages, by writing to a private mapping.
static uint64_t copies_in(const struct as_view *v, const struct as_mappings_left *left, uint32_t index)
{
    uint64_t anonymous = v->mappings[index].anonymous;
    return anonymous == 0 || left->runtimes.items[index] == 0 ? anonymous
                                                              : AS_UNKNOWN; // else they are the runtime's, perhaps
}

static uint64_t without(uint64_t bytes, uint64_t part)
{
    return bytes == AS_UNKNOWN || part == AS_UNKNOWN || part > bytes ? AS_UNKNOWN : bytes - part;
}

// The mappings of files and of shared memory by name: order[0] to order[count - 1] are sorted by it.
static void sum_names(struct largest_mappings *l, const struct as_view *v, const struct as_mappings_left *left,
                      const uint32_t *order, uint64_t count)
{
    for (uint64_t i = 0; i < count;) {
        struct mapping_entry pages = {.index = order[i], .row = as_mapping_row(&v->mappings[order[i]])};
        struct mapping_entry copies = {.index = order[i], .row = AS_ROW_file_copies};
        for (; i < count && same_name(v, (uint32_t)pages.index, order[i]); i++) {
            uint64_t copied = copies_in(v, left, order[i]);
            add_to_entry(&pages, &v->mappings[order[i]], without(left->left.items[order[i]], copied));
            add_to_entry(&copies, &v->mappings[order[i]], copied);
        }
        add_entry(l, pages);
        if (copies.bytes != AS_UNKNOWN) // else what the file has is not known either, which its entry says
            add_entry(l, copies);
    }
}

static void put_files(struct as_json *j, const struct as_view *v, const struct largest_mappings *l)
{
    as_json_object(j, "files");
    as_json_array(j, "largest");
    for (uint32_t i = 0; i < l->count; i++) {
        const struct as_mapping_record *m = &v->mappings[l->shown[i].index];
        as_json_object(j, NULL);
        as_json_string(j, "name", as_string_or_null(v, m->path));
        as_json_string(j, "row", as_row_words[l->shown[i].row].name);
        AS_JSON_NUMBERS(j, &l->shown[i], count, bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
    put_rest(j, l);
    as_json_object_end(j);
}

static bool put_by_name(struct as_json *j, const struct as_view *v, const struct as_mappings_left *left,
                        struct as_error *err)
{
    AS_VEC(uint32_t) order = {0};
    if (!as_vec_reserve(&order, v->mapping_count, err))
        return false;
    for (uint64_t i = 0; i < v->mapping_count; i++) {
        int row = as_mapping_row(&v->mappings[i]);
        if ((row == AS_ROW_other_file || row == AS_ROW_other_shmem) && left->left.items[i] != 0)
            order.items[order.count++] = (uint32_t)i;
    }
    if (order.count > 0)
        qsort_r(order.items, order.count, sizeof *order.items, by_name, (void *)v);
    struct largest_mappings l = {0};
    sum_names(&l, v, left, order.items, order.count);
    put_files(j, v, &l);
    as_vec_free(&order);
    return true;
}

bool as_summary_mappings(struct as_json *j, const struct as_view *v, struct as_error *err)
{
    struct as_mappings_left left;
    if (!as_mappings_left_open(&left, v, err))
        return false;
    as_json_object(j, "mappings");
    put_anonymous(j, v, &left);
    bool ok = put_by_name(j, v, &left, err);
    as_json_object_end(j);
    as_mappings_left_close(&left);
    return ok;
}
