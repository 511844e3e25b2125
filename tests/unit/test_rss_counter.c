// SPDX-License-Identifier: MIT
// What a thread of its own counts of a process, mapping by mapping, is what is counted without it; also where the mappings change
// meanwhile.
#include "target_util.h"

#include <sys/prctl.h>

enum { PAGES = 8, CHANGED = 4 };

struct shared {
    volatile int ready, shrink, shrunk;
    uint64_t
        block; // PAGES pages, of which the child has written CHANGED itself since the fork, and the rest is its parent's, too
    uint64_t spare; // PAGES pages, that it gives back one of when it is told
};

static _Noreturn void live(struct shared *s, size_t page)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves no child behind
    memset((char *)(uintptr_t)s->block, 2, CHANGED * page);
    s->ready = 1;
    await(&s->shrink);
    CHECK(munmap((char *)(uintptr_t)s->spare + (PAGES - 1) * page, page) == 0);
    s->shrunk = 1;
    for (;;)
        pause();
}

static uint64_t map_block(size_t page)
{
    // With a page before and behind that nothing is mapped at: it stays a mapping of its own.
    char *block = mmap(NULL, (PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED && mprotect(block + page, PAGES * page, PROT_READ | PROT_WRITE) == 0);
    memset(block + page, 1, PAGES * page);
    return (uintptr_t)block + page;
}

static const struct as_mapping *count_beside(struct as_target *t, uint64_t address)
{
    struct as_error err = {0};
    CHECK(t->ops->residency.count_begin(t) && t->ops->residency.count_end(t, &err), "%s", err.text);
    const struct as_mapping *m = as_target_mapping_at(t, address);
    CHECK(m);
    return m;
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct shared *s = share(sizeof *s);
    s->block = map_block(page);
    s->spare = map_block(page);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        live(s, page);
    await(&s->ready);
    struct as_target *t = open_process(child);
    struct as_mapping alone = *as_target_mapping_at(t, s->block);
    // Not what an earlier count left there.
    for (size_t i = 0; i < t->mappings.count; i++)
        t->mappings.items[i].shared = t->mappings.items[i].anonymous = t->mappings.items[i].rss = AS_UNKNOWN;
    const struct as_mapping *m = count_beside(t, s->block);
    CHECK(m->end - m->start == PAGES * page && m->rss == PAGES * page && m->anonymous == alone.anonymous);
    CHECK(m->shared == (PAGES - CHANGED) * page && m->shared == alone.shared, "%" PRIu64, m->shared);
    CHECK(t->counts.shared >= m->shared);
    // As many mappings as were listed, and all begin where they did.
    size_t count = t->mappings.count;
    s->shrink = 1;
    await(&s->shrunk);
    m = count_beside(t, s->spare);
    CHECK(t->mappings.count == count && m->start == s->spare && m->end == s->spare + (PAGES - 1) * page);
    CHECK(m->rss == (PAGES - 1) * page);
    as_target_close(t);
    end_child(child);
    return 0;
}
