// SPDX-License-Identifier: MIT
// mimalloc by structure. All that it hands out lies in segments at multiples of 32 MiB. A segment's header has a cookie, which is the
// segment's address xor a random number of 64 bits, and behind it how many slices of 64 KiB the segment has, and how many of them
// the header takes. The random number is a variable of mimalloc's (_mi_heap_main.cookie): where a variable of the program or of a
// library has just the number that a header asks for, no accident has put it there. (include/mimalloc/types.h, read in 2.0 and
// 2.1; tested on 2.0.9, and on the 2.1 that free-threaded builds of CPython 3.13 contain.)
#include "runtimes/finder.h"

#include "base/align.h"
#include "runtimes/regions.h"
#include "runtimes/variable_words.h"

#include <inttypes.h>

enum {
    SEGMENT = 32 << 20,   // bytes of one, but for huge blocks; and where it may begin
    SLICE = 64 << 10,     // bytes
    HEAD_WORDS = 64,      // of a segment that are inspected
    MOST_INFO_SLICES = 4, // that a header takes
    MOST_SLICES = 1 << 24,
    STEP = 4096,               // bytes of variables that are read in one go
    MOST_NUMBERS = 16,         // that are searched for among the variables
    MOST_SEGMENTS = 1 << 20,   // and places for them that are inspected
    MOST_VARIABLES = 64 << 20, // bytes of one mapping
};

// A mapping above this is some other program's reservation: to find out what is resident of it takes seconds before Linux 6.7.
static const uint64_t LARGEST_MAPPING = UINT64_C(1) << 36;

struct mimalloc_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    const struct as_variable_words *words;
    uint32_t runtime;
    uint64_t known[MOST_NUMBERS]; // numbers that a header asked for
    bool proven[MOST_NUMBERS];    // of them, those that a variable has
    int number_count;
    uint64_t segments, bytes;
    int places;   // that are left to inspect
    bool skipped; // a mapping that may have segments
};

// Which of some numbers are variables.
struct value_search {
    const uint64_t *values;
    bool *found;
    int count, left;
};

static bool is_value(void *context, uint64_t address, uint64_t word)
{
    struct value_search *v = context;
    (void)address;
    for (int i = 0; i < v->count; i++)
        if (word == v->values[i] && !v->found[i]) {
            v->found[i] = true;
            v->left--;
        }
    return v->left > 0;
}

// Finds out which of the numbers from `first` on are the values of variables of the program or of a library: of such with a value from the
// beginning, on a private page of the file's that can be written.
static void search_variables(struct mimalloc_search *s, int first)
{
    struct as_target *t = s->target;
    bool possible = false;
    for (int i = first; i < s->number_count; i++)
        possible |= as_variable_words_may_have(s->words, s->known[i]);
    struct value_search v = {s->known + first, s->proven + first, s->number_count - first, s->number_count - first};
    for (size_t i = 0; possible && i < t->mappings.count && v.left > 0; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        struct as_range variables;
        int64_t reads_left = MOST_VARIABLES / STEP;
        if (as_variables_at(t, i, &variables))
            as_words_visit(t, &reads_left, m->start, m->end, is_value, &v);
    }
}

// The place of a number among those that are known, or to be; -1: there is no room for it.
static int place_of(struct mimalloc_search *s, uint64_t number)
{
    for (int i = 0; i < s->number_count; i++)
        if (s->known[i] == number)
            return i;
    if (s->number_count == MOST_NUMBERS)
        return -1;
    s->known[s->number_count] = number;
    s->proven[s->number_count] = false;
    return s->number_count++;
}

// The number that a header with its cookie at words[0] asks for; 0: it is none.
static uint64_t number_of(uint64_t at, const uint64_t words[3])
{
    uint64_t number = words[0] ^ at, slices = words[1], info = words[2];
    // One without its highest bits is rather an address, or a small number.
    return slices > MOST_SLICES || info == 0 || info > MOST_INFO_SLICES || info > slices || number >> 48 == 0 ? 0
                                                                                                              : number;
}

// Bytes of the segment at `at`; 0: there is none. The variables are searched once for all numbers that are new.
static uint64_t segment_at(struct mimalloc_search *s, uint64_t at)
{
    uint64_t words[HEAD_WORDS], slices[HEAD_WORDS];
    int places[HEAD_WORDS], count = 0, before = s->number_count;
    if (!as_target_read(s->target, at, words, sizeof words))
        return 0;
    for (int i = 0; i + 2 < HEAD_WORDS; i++) {
        uint64_t number = number_of(at, words + i);
        int place = number == 0 ? -1 : place_of(s, number);
        if (place >= 0) {
            slices[count] = words[i + 1];
            places[count++] = place;
        }
    }
    if (s->number_count > before)
        search_variables(s, before);
    for (int i = 0; i < count; i++) {
        if (!s->proven[places[i]])
            continue;
        // What stands behind the cookie is forgotten: it would take the room of other numbers.
        s->number_count = places[i] >= before ? places[i] + 1 : before;
        return slices[i] * SLICE;
    }
    return 0;
}

// Adds all segments of a mapping. False: our memory ran out.
static bool search_mapping(struct mimalloc_search *s, const struct as_mapping *m)
{
    struct as_target *t = s->target;
    if (m->end - m->start > LARGEST_MAPPING) {
        s->skipped |= m->rss != 0;
        return true;
    }
    for (uint64_t at = as_align_up(m->start, SEGMENT); at >= m->start && at < m->end && s->places-- > 0;) {
        at = as_align_up(as_target_skip_absent(t, at, m->end), SEGMENT);
        uint64_t size = at < m->end ? segment_at(s, at) : 0;
        if (size > UINT64_MAX - at - SEGMENT)
            return true;
        if (size > 0 && !as_regions_add(t, s->store, s->runtime, at, at + size, &s->bytes, s->err))
            return false;
        s->segments += size > 0;
        at += size > SEGMENT ? as_align_up(size, SEGMENT) : SEGMENT;
    }
    return true;
}

bool as_mimalloc_find(const struct as_finder_input *in)
{
    struct mimalloc_search s = {
        .target = in->target, .store = in->store, .err = in->err, .words = in->words, .places = MOST_SEGMENTS};
    size_t first = in->store->regions.count;
    bool ok = true;
    s.runtime = as_runtime_add(in->store, AS_RUNTIME_MIMALLOC, AS_ROW_other_malloc, in->err);
    if (s.runtime == UINT32_MAX)
        return false;
    for (size_t i = 0; i < in->target->mappings.count && ok; i++)
        if (as_is_runtime_memory(&in->target->mappings.items[i]))
            ok = search_mapping(&s, &in->target->mappings.items[i]);
    if (ok && s.segments > 0 && s.places > 0 && !s.skipped) {
        as_runtime_found(in->store, s.runtime, s.bytes, "2",
                         "the headers of %" PRIu64
                         " segments have a cookie of 64 bits that follows from the segment's address and a variable "
                         "of mimalloc's",
                         s.segments);
        return as_regions_sort(in->store, first, in->err);
    }
    in->store->regions.count = first;
    in->store->runtimes.count--; // ours
    return ok;
}
