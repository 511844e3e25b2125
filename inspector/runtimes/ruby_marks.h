// SPDX-License-Identifier: MIT
// Which of Ruby's objects a GC has marked already, and which were made since the last one. Internal to runtimes/.
#pragma once

#include "runtimes/ruby_layouts.h"

enum {
    AS_RUBY_UNIT = 40, // bytes of a page for which its descriptor has a bit of each kind
    AS_RUBY_WORDS = (65536 / AS_RUBY_UNIT + 64) / 64,
    AS_RUBY_BITMAPS = 8,
    AS_RUBY_OLD_PAGE = 16384, // bytes of a page up to 3.1
};

// Where a release keeps how many GCs an object has survived (0 to 3).
enum as_ruby_ages { AS_RUBY_AGES_UNKNOWN, AS_RUBY_AGES_IN_FLAGS, AS_RUBY_AGES_IN_PAGES };

struct as_ruby_marks {
    const struct as_ruby_layout *layout; // NULL: not known
    enum as_ruby_ages ages;
    bool broken; // something contradicts the rest: nothing is known
    // The fields below describe the current page.
    uint64_t bits[AS_RUBY_BITMAPS * AS_RUBY_WORDS];
    uint64_t marked; // objects with a bit of the kind that objects only have
};

// Learns from a page, whose bytes these are, where ages are; to be called for each page until that is known.
void as_ruby_marks_learn(struct as_ruby_marks *m, const struct as_ruby_page_record *page, const uint8_t *bytes);
// Begins a page: reads its bits.
void as_ruby_marks_begin(struct as_ruby_marks *m, struct as_target *t, const struct as_ruby_page_record *page,
                         const uint8_t *bytes);
// Has no GC marked an object yet, as far as its bits tell? `offset`: of its slot in the page. To be called once for each object of the
// page.
bool as_ruby_not_marked(struct as_ruby_marks *m, uint64_t flags, uint32_t offset);
// Ends a page: do the bits fit its objects?
void as_ruby_marks_end(struct as_ruby_marks *m);
