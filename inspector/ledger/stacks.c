// SPDX-License-Identifier: MIT
// Which mappings are stacks: the kernel's [stack], and those that a thread's stack pointer leads to; but not into a heap: a coroutine's
// stack, allocated with malloc or in a runtime's heap (Go's are), is counted there already.
#include "base/align.h"
#include "ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

enum { RED_ZONE = 128 }; // bytes below the stack pointer that a function may use (psABI of x86-64)

struct pointer {
    uint64_t sp;
    size_t thread;
    bool in_heap;
};

static int by_address(const void *a, const void *b)
{
    const struct pointer *x = a, *y = b;
    return (x->sp > y->sp) - (x->sp < y->sp);
}

static void mark_heap(struct pointer *pointers, size_t count, uint64_t start, uint64_t end)
{
    size_t first = AS_PARTITION_POINT(0, count, i, pointers[i].sp < start);
    for (size_t i = first; i < count && pointers[i].sp < end; i++)
        pointers[i].in_heap = true;
}

// What a thread has touched of a stack that no other thread is on, and what of this lies below the page where it is now.
static void measure_stack(struct as_ledger_builder *b, const struct as_mapping *m, const struct pointer *p)
{
    struct as_thread_record *record = &b->store->threads.items[p->thread];
    uint64_t in_use = as_align_down(p->sp - RED_ZONE, b->target->page_size);
    record->stack_resident = as_target_resident_bytes(b->target, m->start, m->end);
    record->stack_unused = in_use > m->start ? as_target_resident_bytes(b->target, m->start, in_use) : 0;
}

static void find_stacks(struct as_ledger_builder *b, struct pointer *pointers, size_t count)
{
    const struct as_target *t = b->target;
    struct as_store *s = b->store;
    qsort(pointers, count, sizeof *pointers, by_address);
    for (size_t i = 0; i < s->heaps.count; i++)
        mark_heap(pointers, count, s->heaps.items[i].start, s->heaps.items[i].end);
    for (size_t i = 0; i < s->regions.count; i++)
        mark_heap(pointers, count, s->regions.items[i].address, s->regions.items[i].address + s->regions.items[i].size);
    for (size_t i = 0; i < t->mappings.count; i++)
        if (strcmp(as_mapping_path(t, &t->mappings.items[i]), "[stack]") == 0)
            s->mappings.items[i].role = AS_ROLE_STACK;
    for (size_t i = 0; i < count; i++) {
        const struct as_mapping *m = pointers[i].in_heap ? NULL : as_target_mapping_at(t, pointers[i].sp);
        if (!m || m->kind != AS_MAP_ANON)
            continue;
        s->mappings.items[m - t->mappings.items].role = AS_ROLE_STACK;
        if ((i == 0 || pointers[i - 1].sp < m->start) && (i + 1 == count || pointers[i + 1].sp >= m->end))
            measure_stack(b, m, &pointers[i]);
    }
}

bool as_ledger_find_stacks(struct as_ledger_builder *b)
{
    const struct as_target *t = b->target;
    AS_VEC(struct pointer) pointers = {0};
    bool ok = true;
    for (size_t i = 0; i < t->threads.count && ok; i++)
        ok = as_vec_push(&pointers, b->err, (struct pointer){.sp = t->threads.items[i].sp, .thread = i});
    if (ok && pointers.count > 0)
        find_stacks(b, pointers.items, pointers.count);
    as_vec_free(&pointers);
    return ok;
}
