// SPDX-License-Identifier: MIT
#include "base/align.h"
#include "base/sort.h"
#include "graph/roots.h"

#include <string.h>

uint64_t as_roots_end_of_module(const struct as_roots_plan *p, uint32_t module)
{
    const struct as_module *o = &p->modules->list.items[module];
    uint64_t end = o->end;
    for (uint32_t i = 0; i < o->elf.load_count; i++) {
        uint64_t load = o->base + o->elf.loads[i].vaddr + o->elf.loads[i].memsz;
        end = load > end ? load : end;
    }
    return as_align_up(end, p->target->page_size);
}

// Notes which mappings are a module's: those of its file, and the .bss behind its data.
static void note_module(struct as_roots_plan *p, uint32_t module)
{
    const struct as_target *t = p->target;
    const struct as_module *o = &p->modules->list.items[module];
    uint64_t end = as_roots_end_of_module(p, module);
    bool before = false; // the mapping before is the module's
    for (size_t i = o->first_mapping; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        bool follows = before && i > 0 && t->mappings.items[i - 1].end == m->start && m->start < end;
        if (m->start >= o->end && !follows)
            return;
        before = (m->start < o->end && as_module_has(p->modules, o, m)) ||
                 (follows && m->kind == AS_MAP_ANON && (m->prot & AS_PROT_WRITE) && m->path == 0);
        if (before)
            p->module_of.items[i] = module;
    }
}

static bool note_modules(struct as_roots_plan *p, struct as_error *err)
{
    struct as_target *t = p->target;
    const struct as_modules *modules = p->modules;
    if (!as_vec_reserve(&p->module_of, t->mappings.count, err))
        return false;
    p->module_of.count = t->mappings.count;
    memset(p->module_of.items, 0xff, p->module_of.count * sizeof *p->module_of.items);
    for (size_t i = 0; i < modules->list.count; i++) {
        const struct as_elf *elf = &modules->list.items[i].elf;
        note_module(p, (uint32_t)i);
        p->tls_bytes += elf->tls_size + elf->tls_align;
    }
    return true;
}

static bool note_runtimes(struct as_roots_plan *p, const struct as_objects *objects, const struct as_store *store,
                          struct as_error *err)
{
    const struct as_target *t = p->target;
    if (!as_vec_reserve(&p->runtime, t->mappings.count, err))
        return false;
    p->runtime.count = t->mappings.count;
    for (size_t i = 0; i < store->ruby.count; i++) {
        const struct as_mapping *m = as_target_mapping_at(t, store->ruby.items[i].address);
        if (m && !as_objects_has(objects, store->ruby.items[i].address))
            p->runtime.items[m - t->mappings.items] = true;
    }
    for (size_t i = 0; i < store->regions.count; i++) {
        const struct as_mapping *m = as_target_mapping_at(t, store->regions.items[i].address);
        if (m && !as_objects_has(objects, store->regions.items[i].address))
            p->runtime.items[m - t->mappings.items] = true;
    }
    return true;
}

static void keep_out(uint64_t start, uint64_t end, uint64_t **starts, uint64_t **ends)
{
    *(*starts)++ = start;
    *(*ends)++ = end;
}

// malloc's own memory, and that of the objects which are nodes: no two parts overlap, so the n-th beginning belongs to the n-th end.
static bool note_malloc(struct as_roots_plan *p, const struct as_objects *objects, const struct as_malloc *m,
                        const struct as_store *store, struct as_error *err)
{
    AS_VEC(uint64_t) starts = {0};
    AS_VEC(uint64_t) ends = {0};
    size_t most = store->heaps.count + 2 * m->libcs.count + objects->regions.count;
    bool ok = as_vec_reserve(&starts, most, err) && as_vec_reserve(&ends, most, err) &&
              as_vec_reserve(&p->kept_out, most, err);
    uint64_t *start = starts.items, *end = ends.items;
    for (size_t i = 0; ok && i < store->heaps.count; i++)
        keep_out(store->heaps.items[i].start, store->heaps.items[i].end, &start, &end);
    for (size_t i = 0; ok && i < objects->regions.count; i++)
        keep_out(objects->regions.items[i].start, objects->regions.items[i].end, &start, &end);
    AS_FOR_EACH_WHILE(ok, const struct as_libc, libc, &m->libcs) {
        keep_out(libc->main_arena, libc->main_arena + (uint64_t)libc->layout.state.size, &start, &end);
        if (libc->mp != AS_UNKNOWN)
            keep_out(libc->mp, libc->mp + (uint64_t)libc->layout.par.size, &start, &end);
    }
    size_t count = ok ? (size_t)(start - starts.items) : 0;
    ok = ok && as_sort_u64(starts.items, count, err) && as_sort_u64(ends.items, count, err);
    for (size_t i = 0; ok && i < count; i++)
        p->kept_out.items[p->kept_out.count++] = (struct as_range){starts.items[i], ends.items[i]};
    as_vec_free(&starts);
    as_vec_free(&ends);
    return ok;
}

static bool note_stacks(struct as_roots_plan *p, struct as_error *err)
{
    const struct as_target *t = p->target;
    size_t count = t->threads.count;
    AS_VEC(uint32_t) taken = {0};
    bool ok = as_vec_reserve(&p->stack_pointers, count, err) && as_vec_reserve(&p->stack_threads, count, err) &&
              as_vec_reserve(&taken, count, err);
    for (size_t i = 0; ok && i < count; i++)
        p->stack_pointers.items[p->stack_pointers.count++] = t->threads.items[i].sp;
    ok = ok && as_sort_u64(p->stack_pointers.items, count, err);
    for (size_t i = 0; ok && i < count; i++) {
        size_t place = as_lower_bound(p->stack_pointers.items, count, t->threads.items[i].sp);
        p->stack_threads.items[place + taken.items[place]++] = (uint32_t)i;
    }
    p->stack_threads.count = p->stack_pointers.count;
    as_vec_free(&taken);
    return ok;
}

bool as_roots_plan_make(struct as_roots_plan *p, struct as_target *t, const struct as_modules *modules,
                        const struct as_objects *objects, const struct as_malloc *m, const struct as_store *s,
                        struct as_error *err)
{
    *p = (struct as_roots_plan){.target = t, .modules = modules};
    return note_modules(p, err) && note_runtimes(p, objects, s, err) && note_malloc(p, objects, m, s, err) &&
           note_stacks(p, err);
}

void as_roots_plan_free(struct as_roots_plan *p)
{
    AS_FREE_VECS(p, kept_out, module_of, runtime, stack_pointers, stack_threads);
}
