// SPDX-License-Identifier: MIT
#include "profile/head.h"

enum { MOST_RATE = 16, LEAST_SHIFT = 12, MOST_SHIFT = 16, MOST_FUNCTIONS = 1 << 24 };
#define LEAST_BYTES (UINT64_C(32) << 20)
#define MOST_BYTES (UINT64_C(4) << 30)

static bool table_holds(const struct as_profile_head *head, const struct as_profile_table *table, uint64_t entry,
                        uint64_t most)
{
    return table->offset >= sizeof *head && table->offset < head->size && table->offset % 64 == 0 &&
           table->size <= most && table->size <= (head->size - table->offset) / entry;
}

bool as_profile_head_holds(const struct as_profile_head *head, uint64_t address, uint64_t room)
{
    return head->magic == AS_PROFILE_MAGIC && head->version == AS_PROFILE_VERSION && head->head_size == sizeof *head &&
           head->self == address && head->size <= room && head->size >= LEAST_BYTES && head->rate_shift <= MOST_RATE &&
           head->page_shift >= LEAST_SHIFT && head->page_shift <= MOST_SHIFT &&
           head->block_size == 4U << (head->page_shift - AS_PROFILE_SLOT_SHIFT) && head->pages.size > 0 &&
           (head->pages.size & (head->pages.size - 1)) == 0 &&
           table_holds(head, &head->pages, sizeof(uint64_t), AS_PROFILE_BLOCK_MASK) &&
           table_holds(head, &head->blocks, head->block_size, AS_PROFILE_BLOCK_MASK) &&
           table_holds(head, &head->large_slots, sizeof(uint32_t), AS_PROFILE_BLOCK_MASK) && head->refused.size > 0 &&
           (head->refused.size & (head->refused.size - 1)) == 0 &&
           table_holds(head, &head->refused, sizeof(uint64_t), AS_PROFILE_BLOCK_MASK) &&
           table_holds(head, &head->contexts, sizeof(struct as_profile_context), AS_PROFILE_ID_MASK) &&
           table_holds(head, &head->sampled, sizeof(struct as_profile_sampled), AS_PROFILE_ID_MASK) &&
           table_holds(head, &head->frames, sizeof(uint64_t), AS_PROFILE_BRANCH_BIT) &&
           table_holds(head, &head->stacks, sizeof(uint32_t), UINT64_C(1) << AS_PROFILE_STACK_BITS) &&
           table_holds(head, &head->modules, sizeof(struct as_profile_module), AS_PROFILE_MOST_MODULES) &&
           table_holds(head, &head->functions, sizeof(struct as_profile_function), MOST_FUNCTIONS) &&
           table_holds(head, &head->texts, 1, UINT32_MAX) &&
           table_holds(head, &head->threads, sizeof(struct as_profile_thread), 1U << AS_PROFILE_THREAD_BITS);
}

uint64_t as_profile_head_find(struct as_target *t, struct as_profile_head *head)
{
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        uint64_t magic;
        if (m->kind != AS_MAP_ANON || m->end - m->start < LEAST_BYTES || m->end - m->start > MOST_BYTES ||
            !(m->prot & AS_PROT_WRITE) || m->out_of_reach)
            continue;
        if (as_target_read_u64(t, m->start, &magic) && magic == AS_PROFILE_MAGIC &&
            as_target_read(t, m->start, head, sizeof *head) && as_profile_head_holds(head, m->start, m->end - m->start))
            return m->start;
    }
    return 0;
}

uint64_t as_profile_find(struct as_target *t)
{
    struct as_profile_head head;
    return as_profile_head_find(t, &head);
}
