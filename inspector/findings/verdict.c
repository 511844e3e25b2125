// SPDX-License-Identifier: MIT
// Applies the rules: one table, in the order of the rules; the order of the findings; the lead, and the caveats.
#include "findings/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY 0.01 // of Rss: what is less is almost nothing

static const struct rule {
    const char *name;
    enum as_rank rank;
    enum as_trim_kind trim; // its bytes are a forecast
    uint64_t rows;
    const char *lights;
    as_rule *find;
} rules[] = {
    {"another allocator", AS_RANK_PREMISE, AS_TRIM_NONE, 0, NULL, as_another_allocator},
    {"residency unknown", AS_RANK_PREMISE, AS_TRIM_NONE, 0, NULL, as_residency_unknown},
    {"free pages kept", AS_RANK_ROW, AS_TRIM_PLAIN, AS_ROW_BIT(releasable), "row:releasable", as_free_pages},
    {"withheld tops", AS_RANK_ROW, AS_TRIM_DEEP, AS_ROW_BIT(withheld), "row:withheld", as_withheld_tops},
    {"stranded by pins", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(stranded), "row:stranded", as_pinned},
    {"cached", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(tcache) | AS_ROW_BIT(fastbin), NULL, as_caches},
    {"in use", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(in_use) | AS_ROW_BIT(mmapped_in_use), "row:in_use", as_in_use},
    {"Ruby's pages", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(ruby_pages), NULL, as_ruby_pages},
    {"Python's arenas", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(python_arenas), NULL, as_python_arenas},
    {"managed memory", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(managed), NULL, as_managed},
    {"other malloc", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(other_malloc), NULL, as_other_malloc},
    {"files", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(other_file), NULL, as_part_of_rss},
    {"anonymous memory", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(other_anon), NULL, as_part_of_rss},
    {"shared memory", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(other_shmem), NULL, as_part_of_rss},
    {"stacks", AS_RANK_ROW, AS_TRIM_NONE, AS_ROW_BIT(stacks), NULL, as_stacks},
    {"large blocks", AS_RANK_PART, AS_TRIM_NONE, 0, "row:mmapped_in_use", as_large_blocks},
    {"too many arenas", AS_RANK_PART, AS_TRIM_NONE, 0, "idle", as_too_many_arenas},
    {"gone already", AS_RANK_BESIDE, AS_TRIM_NONE, 0, NULL, as_gone_already},
    {"swapped", AS_RANK_BESIDE, AS_TRIM_NONE, 0, "row:swapped_in_use", as_swapped},
    {"open files in memory", AS_RANK_BESIDE, AS_TRIM_NONE, 0, NULL, as_open_files},
};
static const struct rule any_other = {NULL, AS_RANK_ROW, AS_TRIM_NONE, 0, NULL, as_any_other};
_Static_assert(sizeof rules / sizeof *rules + 1 <= AS_MOST_FINDINGS, "room for the findings");

static bool goes_before(const struct as_finding *a, const struct as_finding *b)
{
    return a->rank != b->rank ? a->rank < b->rank : as_known(a->bytes) > as_known(b->bytes);
}

// Asks a rule, and puts what it finds in its place: the first of equals stays ahead.
static void apply(struct as_verdict *v, const struct as_facts *f, const struct rule *rule)
{
    struct as_finding made = {rule->name, rule->rank, rule->trim, .rows = rule->rows, .lights = rule->lights};
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (made.rows >> row & 1)
            made.bytes = as_add(made.bytes, as_row_value(f->rows, row));
    if (made.trim != AS_TRIM_NONE && f->doubt)
        snprintf(made.estimate, sizeof made.estimate, "%s", f->doubt);
    if (!rule->find(f, &made))
        return;
    bool known = made.rank != AS_RANK_BESIDE && made.bytes != AS_UNKNOWN && f->whole > 0;
    made.share = known ? (double)made.bytes / (double)f->whole : -1;
    uint32_t at = v->finding_count++;
    for (; at > 0 && goes_before(&made, &v->findings[at - 1]); at--)
        v->findings[at] = v->findings[at - 1];
    v->findings[at] = made;
}

static void lead(char text[AS_LEAD], const struct as_facts *f)
{
    uint64_t rss = f->view->meta->rss, used = f->sums.used, other = f->sums.not_malloc;
    double part = other == AS_UNKNOWN ? -1 : (double)other;
    if (rss == AS_UNKNOWN && used == AS_UNKNOWN)
        snprintf(text, AS_LEAD, "It is unknown how much of this process was resident.");
    else if (!f->is_glibc)
        snprintf(text, AS_LEAD, "%s resident.", AS_SIZE(rss));
    else if (rss == AS_UNKNOWN)
        snprintf(text, AS_LEAD, "%s of what was resident is in use.", AS_SIZE(used));
    else if (part >= (1 - TINY) * (double)rss)
        snprintf(text, AS_LEAD, "%s resident; almost nothing of it is malloc's.", AS_SIZE(rss));
    else if (part >= AS_LARGE * (double)rss)
        snprintf(text, AS_LEAD, "%s resident: %s in use, %s not malloc's.", AS_SIZE(rss), AS_SIZE(used),
                 AS_SIZE(other));
    else
        snprintf(text, AS_LEAD, "%s resident; %s is in use.", AS_SIZE(rss), AS_SIZE(used));
}

static void caveats(struct as_verdict *v, const struct as_facts *f)
{
    const struct as_meta_record *m = f->view->meta;
    bool torn = as_any(m->torn_chunks);
    if (torn)
        snprintf(v->caveats[v->caveat_count++], AS_LEAD,
                 "The heap changed during the snapshot, or is corrupt, at %s: the memory behind each is unknown.",
                 as_plural_text(m->torn_chunks, "chunk").text);
    if (as_any(f->rows->unknown))
        snprintf(v->caveats[v->caveat_count++], AS_LEAD, "%s could not be classified.", AS_SIZE(f->rows->unknown));
    if (!(m->flags & AS_META_EXACT) && m->flags & AS_META_RESIDENCY_KNOWN && !torn)
        snprintf(v->caveats[v->caveat_count++], AS_LEAD,
                 "The rows need not add up to Rss to the byte: see \"How this was found\".");
}

struct as_verdict *as_verdict_make(const struct as_view *v, struct as_error *err)
{
    const struct as_facts f = as_facts_of(v);
    struct as_verdict *made = calloc(1, sizeof *made);
    if (!made) {
        as_fail(err, AS_NO_MEMORY, "no memory for the verdict");
        return NULL;
    }
    made->least = f.least;
    lead(made->lead, &f);
    caveats(made, &f);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        apply(made, &f, &rules[i]);
    uint64_t covered = 0;
    for (uint32_t i = 0; i < made->finding_count; i++)
        covered |= made->findings[i].rows;
    if (f.largest_row >= 0 && !(covered >> f.largest_row & 1))
        apply(made, &f, &any_other);
    return made;
}
