// SPDX-License-Identifier: MIT
// What the GC's bits tell. A mark alone says little: when the GC has swept a page, it leaves marks on old objects only. But an object's
// age tells: each GC that marks an object makes it older, up to 3, and a new one has age 0. Objects without a write barrier stay
// at age 0; they have a bit of their own, and nothing is said of them.
//
// Up to 3.2 the age stands in two bits of the flags; from 3.3 on in bitmaps of the page's descriptor, and one bit of the flags says that
// it is 3. All bitmaps begin behind the descriptor's list node: without write barrier, marked, ..., the ages.
#include "runtimes/ruby_marks.h"

#include <string.h>

enum {
    BITS = 64, // of a word
    NODE_SIZE = 16,
    WITHOUT_BARRIER = 0, // bitmaps, in their order
    MARKED = 1,
    AGES = 6, // two bits for each object
    AGE_BITS = 2,
    OLD_AGE = 3,
    OLD = 1 << 5, // flags
    OLD_TOO = 1 << 6,
};

static size_t words_of(const struct as_ruby_layout *layout)
{
    return ((layout->size + AS_RUBY_UNIT - 1) / AS_RUBY_UNIT + BITS - 1) / BITS;
}

static uint64_t bit_at(const struct as_ruby_marks *m, unsigned bitmap, uint32_t bit)
{
    return m->bits[bitmap * words_of(m->layout) + bit / BITS] >> bit % BITS & 1;
}

void as_ruby_marks_learn(struct as_ruby_marks *m, const struct as_ruby_page_record *page, const uint8_t *bytes)
{
    for (uint32_t i = 0; i < page->total_slots && m->ages == AS_RUBY_AGES_UNKNOWN; i++) {
        uint64_t flags;
        memcpy(&flags, bytes + page->first_slot + (size_t)i * page->slot_size, sizeof flags);
        if (flags & OLD && flags & OLD_TOO)
            m->ages = AS_RUBY_AGES_IN_FLAGS;
        else if (flags & OLD && page->size > AS_RUBY_OLD_PAGE) // in an old release it is of age 1
            m->ages = AS_RUBY_AGES_IN_PAGES;
    }
}

void as_ruby_marks_begin(struct as_ruby_marks *m, struct as_target *t, const struct as_ruby_page_record *page,
                         const uint8_t *bytes)
{
    uint64_t descriptor;
    m->marked = 0;
    m->broken |= !m->layout || m->ages == AS_RUBY_AGES_UNKNOWN || page->size > m->layout->size;
    if (m->broken)
        return;
    memcpy(&descriptor, bytes, sizeof descriptor);
    size_t bitmaps = m->ages == AS_RUBY_AGES_IN_PAGES ? AS_RUBY_BITMAPS : MARKED + 1;
    uint64_t at = descriptor + (uint64_t)m->layout->node + NODE_SIZE;
    m->broken = !as_target_read(t, at, m->bits, bitmaps * words_of(m->layout) * sizeof *m->bits);
}

static uint32_t age_of(const struct as_ruby_marks *m, uint64_t flags, uint32_t bit)
{
    if (m->ages == AS_RUBY_AGES_IN_FLAGS)
        return (flags & OLD ? 1 : 0) + (flags & OLD_TOO ? 2 : 0);
    return (uint32_t)(bit_at(m, AGES, AGE_BITS * bit) + 2 * bit_at(m, AGES, AGE_BITS * bit + 1));
}

bool as_ruby_not_marked(struct as_ruby_marks *m, uint64_t flags, uint32_t offset)
{
    uint32_t bit = offset / AS_RUBY_UNIT;
    if (m->broken)
        return false;
    uint32_t age = age_of(m, flags, bit);
    m->marked += bit_at(m, MARKED, bit);
    m->broken |= m->ages == AS_RUBY_AGES_IN_PAGES && (age == OLD_AGE) != !!(flags & OLD);
    return age == 0 && !bit_at(m, WITHOUT_BARRIER, bit) && !bit_at(m, MARKED, bit);
}

void as_ruby_marks_end(struct as_ruby_marks *m)
{
    uint64_t all = 0;
    for (size_t i = 0; !m->broken && i < words_of(m->layout); i++)
        all += (uint64_t)__builtin_popcountll(m->bits[MARKED * words_of(m->layout) + i]);
    m->broken |= all != m->marked;
}
