// SPDX-License-Identifier: MIT
// Free memory that malloc keeps.
#include "findings/facts.h"

#include <inttypes.h>

// Whole free pages that malloc kept: the forecast of malloc_trim(0).
bool as_free_pages(const struct as_facts *f, struct as_finding *out)
{
    out->bytes = f->rows->malloc_trim;
    as_say(out, "%s is in free pages: one malloc_trim(0) returns them.", AS_SIZE(out->bytes));
    return as_matters(f, out->bytes, out->rows);
}

// Free pages in the tops of thread arenas: above malloc_trim's reach, below free()'s threshold.
bool as_withheld_tops(const struct as_facts *f, struct as_finding *out)
{
    uint32_t arenas = 0, idle = 0;
    for (uint64_t i = 0; i < f->view->arena_count; i++) {
        bool withholds = as_any(f->view->arenas[i].ledger.withheld);
        arenas += withholds;
        idle += withholds && as_arena_idle(&f->view->arenas[i]) != AS_NOT_IDLE;
    }
    as_say(out, "%s is free in the tops of %s: only a deep trim returns it.", AS_SIZE(out->bytes),
           as_plural_text(arenas, idle == arenas ? "idle thread arena" : "thread arena").text);
    return as_matters(f, out->bytes, out->rows);
}

// Free memory on pages that something else keeps.
bool as_pinned(const struct as_facts *f, struct as_finding *out)
{
    as_say(out, "%s is free but stranded: something in use on the same page keeps it resident.", AS_SIZE(out->bytes));
    return as_matters(f, out->bytes, out->rows);
}

// Hoards in tcaches and fastbins.
bool as_caches(const struct as_facts *f, struct as_finding *out)
{
    uint64_t tcache = f->rows->tcache, fastbin = f->rows->fastbin;
    out->lights = as_known(tcache) >= as_known(fastbin) ? "row:tcache" : "row:fastbin";
    as_say(out, "%s is freed but cached: %s in threads' tcaches, %s in fastbins.", AS_SIZE(out->bytes), AS_SIZE(tcache),
           AS_SIZE(fastbin));
    return as_matters(f, out->bytes, out->rows);
}

// Arenas that no thread uses any more, or that hold next to nothing but free memory.
bool as_too_many_arenas(const struct as_facts *f, struct as_finding *out)
{
    uint32_t gone = f->no_thread, empty = f->idle - f->no_thread;
    out->bytes = f->idle_free;
    as_say(out, "%" PRIu32 " of %s ", f->idle, as_plural_text(f->view->arena_count, "arena").text);
    if (gone && empty)
        as_say(out, "are idle: %" PRIu32 " without a thread, %" PRIu32 " nearly empty", gone, empty);
    else if (empty)
        as_say(out, "%s nearly empty", empty == 1 ? "is" : "are");
    else
        as_say(out, "%s no thread any more", gone == 1 ? "has" : "have");
    as_say(out, "; %s in them is free.", AS_SIZE(out->bytes));
    return f->idle > 0 && as_matters(f, out->bytes, 0);
}
