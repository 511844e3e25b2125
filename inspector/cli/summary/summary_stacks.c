// SPDX-License-Identifier: MIT
// What the summary says of the threads' stacks: how much of them calls have left that returned, and which are the largest.
#include "cli/json.h"
#include "cli/summary/summary.h"

void as_summary_stacks(struct as_json *j, const struct as_view *v)
{
    struct as_largest largest = {.most = 20};
    uint64_t resident = 0, unused = 0, known = 0;
    for (uint64_t i = 0; i < v->thread_count; i++) {
        const struct as_thread_record *t = &v->threads[i];
        if (t->stack_resident == AS_UNKNOWN || t->stack_unused == AS_UNKNOWN)
            continue;
        known++;
        resident += t->stack_resident;
        unused += t->stack_unused;
        as_largest_offer(&largest, i, t->stack_resident);
    }
    if (known == 0) {
        as_json_null(j, "stacks");
        return;
    }
    as_json_object(j, "stacks");
    as_json_number(j, "threads", known);
    as_json_number(j, "resident", resident);
    as_json_number(j, "unused", unused);
    as_json_array(j, "largest");
    for (uint32_t i = 0; i < largest.count; i++) {
        const struct as_thread_record *t = &v->threads[largest.index[i]];
        as_json_object(j, NULL);
        as_json_number(j, "tid", t->tid);
        as_json_text(j, "name", t->name, sizeof t->name);
        as_json_number(j, "resident", t->stack_resident);
        as_json_number(j, "unused", t->stack_unused);
        as_json_object_end(j);
    }
    as_json_array_end(j);
    as_json_object_end(j);
}
