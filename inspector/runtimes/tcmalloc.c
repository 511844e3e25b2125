// SPDX-License-Identifier: MIT
// gperftools' tcmalloc by structure. It divides memory into pages of 8 KiB, and has a map of these: a root of 2^17
// pointers to leaves, and a leaf of 2^18 words, of which the first and the last of each run of pages (a span) have the
// address of the span's descriptor. A descriptor begins with the number of the span's first page and with how many it
// has. So a word's place in the map says which number its descriptor must begin with, and how long the span is says
// where the next word counts: those between may be stale. Not far behind the root are sums over all spans. Leaves and
// descriptors lie in chunks of 8 MiB of tcmalloc's own, with variables that say where the newest chunk is free.
// (pagemap.h, span.h, page_heap.h and common.cc, read in 2.8 to 2.18)
#include "runtimes/finder.h"

#include "base/align.h"
#include "base/sort.h"
#include "runtimes/regions.h"
#include "runtimes/variables.h"

#include <inttypes.h>
#include <string.h>

enum {
    PAGE_BITS = 13,
    LEAF_BITS = 18,
    ROOT_BITS = 17,
    LEAF = 8 << LEAF_BITS, // bytes
    ROOT = 8 << ROOT_BITS,
    CHUNK = 8 << 20,         // bytes of tcmalloc's own memory that it takes from the kernel at once
    ALLOTMENT = 128 << 10,   // bytes of it that are divided into things of one kind
    PIECE = 4096,            // bytes to which the places in chunks are rounded
    LARGEST_SUMS = 32 << 10, // bytes behind the root among which they are
    CANDIDATES = 1024,       // pointers of an object that are tried as pointers to leaves
    FREE_READS = 1 << 16,    // at a descriptor or at 4 KiB, whatever the target's size; and at 4 KiB of variables
    MISMATCHES = 8,          // a thread may stand between two changes of the map
};

enum { IN_USE, FREE, RETURNED, LOCATIONS };
struct span {
    uint64_t start, length; // pages
    uint64_t next, previous, objects;
    uint32_t bits; // 24 and 25: where it is
};

struct tcmalloc_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    size_t first_region; // in the store
    int64_t reads_left;  // that are left
    int candidates;
    bool ok, found;            // ok false: our memory ran out
    struct as_range variables; // that are gone through
    uint64_t start, end;       // of the run of spans that goes on, pages
    uint64_t spans, mismatches;
    uint64_t pages[LOCATIONS], bytes; // by the descriptors; of the regions
    bool counted;                     // tcmalloc's sums say the same
    uint64_t kept_at;                 // the piece that is in `kept`; 0: none
    uint8_t kept[PIECE];
    AS_VEC(uint64_t) pieces; // places in chunks
};

static bool is_memory(struct tcmalloc_search *s, uint64_t address, uint64_t length)
{
    return address % sizeof(uint64_t) == 0 && as_is_runtime_range(s->target, address, length, &s->reads_left);
}

// Takes note that tcmalloc's own memory has something at `address`.
static void add_piece(struct tcmalloc_search *s, uint64_t address)
{
    uint64_t piece = as_align_down(address, PIECE);
    if (s->pieces.count > 0 && s->pieces.items[s->pieces.count - 1] == piece)
        return;
    s->ok &= as_vec_push(&s->pieces, s->err, piece);
}

// --- Spans ------------------------------------------------------------------------------------------------------------

// Descriptors are many, and stand side by side: what is around one is kept.
static bool read_kept(struct tcmalloc_search *s, uint64_t at, struct span *span)
{
    uint64_t piece = as_align_down(at, PIECE);
    if (as_align_down(at + sizeof *span - 1, PIECE) != piece)
        return as_target_read(s->target, at, span, sizeof *span);
    if (s->kept_at != piece)
        s->kept_at = as_target_read(s->target, piece, s->kept, sizeof s->kept) ? piece : 0;
    memcpy(span, s->kept + (at - piece), sizeof *span);
    return s->kept_at != 0;
}

static bool read_span(struct tcmalloc_search *s, uint64_t at, struct span *span)
{
    return --s->reads_left > 0 && is_memory(s, at, sizeof *span) && read_kept(s, at, span) && span->length > 0 &&
           span->length < UINT64_C(1) << (ROOT_BITS + LEAF_BITS);
}

static void end_run(struct tcmalloc_search *s)
{
    if (s->ok && s->start < s->end)
        s->ok = as_regions_add(s->target, s->store, s->runtime, s->start << PAGE_BITS, s->end << PAGE_BITS, &s->bytes,
                               s->err);
    s->start = s->end;
}

struct leaf_visit {
    struct tcmalloc_search *search;
    uint64_t leaf, first; // page that it is for
};

// Takes a word of a leaf: for the first page of a span, or for one within the span before.
static bool visit_page(void *context, uint64_t address, uint64_t word)
{
    const struct leaf_visit *v = context;
    struct tcmalloc_search *s = v->search;
    struct span span;
    uint64_t page = v->first + (address - v->leaf) / sizeof word;
    if (page < s->end)
        return true;
    if (!read_span(s, word, &span) || span.start != page) {
        s->mismatches++;
        return s->reads_left > 0 && s->mismatches <= MISMATCHES;
    }
    if (page != s->end) {
        end_run(s);
        s->start = page;
    }
    s->end = page + span.length;
    s->spans++;
    s->pages[(span.bits >> 24 & 3) % LOCATIONS] += span.length;
    add_piece(s, word);
    return s->ok;
}

struct root_visit {
    struct tcmalloc_search *search;
    uint64_t root;
    bool fit; // all so far
};

static bool visit_leaf(void *context, uint64_t address, uint64_t word)
{
    struct root_visit *r = context;
    struct tcmalloc_search *s = r->search;
    struct leaf_visit v = {s, word, (address - r->root) / sizeof word << LEAF_BITS};
    r->fit = is_memory(s, word, LEAF);
    if (!r->fit)
        return false;
    add_piece(s, word);
    add_piece(s, word + LEAF - 1);
    as_words_visit(s->target, &s->reads_left, word, word + LEAF, visit_page, &v);
    return s->ok && s->reads_left > 0 && s->mismatches <= MISMATCHES;
}

// Does tcmalloc count as much? Its sums are what it has taken from the kernel, what of it is free, what of it is free and returned,
// and what is not returned.
static bool has_sums(const struct tcmalloc_search *s, uint64_t from, uint64_t to)
{
    uint64_t words[LARGEST_SUMS / sizeof(uint64_t)];
    size_t length = to - from < sizeof words ? (size_t)(to - from) : sizeof words;
    uint64_t free = s->pages[FREE] << PAGE_BITS, returned = s->pages[RETURNED] << PAGE_BITS;
    uint64_t taken = free + returned + (s->pages[IN_USE] << PAGE_BITS);
    if (!as_target_read(s->target, from, words, length) || taken != s->bytes)
        return false;
    for (size_t i = 0; i + 3 < length / sizeof *words; i++)
        if (words[i] == taken && words[i + 1] == free && words[i + 2] == returned && words[i + 3] == taken - returned)
            return true;
    return false;
}

// Adds all that the map at `root` has. False: it is none.
static bool add_map(struct tcmalloc_search *s, uint64_t root)
{
    struct root_visit r = {s, root, true};
    as_words_visit(s->target, &s->reads_left, root, root + ROOT, visit_leaf, &r);
    end_run(s);
    if (!s->ok || !r.fit || s->reads_left <= 0 || s->spans == 0 || s->mismatches > MISMATCHES)
        return false;
    s->counted = has_sums(s, root + ROOT, s->variables.end);
    return true;
}

// --- tcmalloc's own memory --------------------------------------------------------------------------------------------

struct own_search {
    struct tcmalloc_search *search;
    uint64_t address, word;  // the variable before
    struct as_range *newest; // of the chunk, once it is known
    struct as_range lowest;  // that tcmalloc has there at least
};

// Could the variables say where the newest chunk is free? It has the lowest of what is known.
static bool take_chunk(struct own_search *o, uint64_t free, uint64_t left)
{
    uint64_t end = free + left;
    if (left >= CHUNK || end % PIECE != 0 || end < CHUNK || !is_memory(o->search, end - CHUNK, CHUNK))
        return false;
    if (o->lowest.start - (end - CHUNK) >= ALLOTMENT || o->lowest.end - PIECE >= free || o->lowest.end > end)
        return false;
    *o->newest = (struct as_range){end - CHUNK, end};
    return true;
}

static bool visit_variable(void *context, uint64_t address, uint64_t word)
{
    struct own_search *o = context;
    bool pair = address == o->address + sizeof word;
    bool taken = pair && (take_chunk(o, word, o->word) || take_chunk(o, o->word, word));
    o->address = address;
    o->word = word;
    return !taken;
}

// Is there a span in [start, end)? The regions so far are in the order of their addresses; *at goes along.
static bool has_span(const struct tcmalloc_search *s, size_t last, size_t *at, uint64_t start, uint64_t end)
{
    const struct as_region_record *regions = s->store->regions.items;
    while (*at < last && regions[*at].address + regions[*at].size <= start)
        ++*at;
    return *at < last && regions[*at].address < end;
}

// The whole chunk of which a part is known, if the variables say where it is; otherwise the part.
static struct as_range chunk_of(struct tcmalloc_search *s, struct as_range part)
{
    struct as_range whole = part;
    struct own_search o = {.search = s, .newest = &whole, .lowest = part};
    int64_t reads_left = FREE_READS;
    as_words_visit(s->target, &reads_left, s->variables.start, s->variables.end, visit_variable, &o);
    return whole;
}

// Adds chunks: what lies between two of tcmalloc's own, less than a chunk apart and with no span between, is its own as well.
static void add_own(struct tcmalloc_search *s)
{
    size_t last = s->store->regions.count, at = s->first_region;
    const uint64_t *pieces = s->pieces.items;
    s->ok = s->ok && as_sort_u64(s->pieces.items, s->pieces.count, s->err);
    for (size_t i = 0, next; i < s->pieces.count && s->ok; i = next) {
        struct as_range own = {pieces[i], pieces[i] + PIECE};
        uint64_t bytes = 0;
        for (next = i + 1; next < s->pieces.count && pieces[next] - own.start <= CHUNK - PIECE; next++) {
            if (has_span(s, last, &at, own.end, pieces[next]))
                break;
            own.end = pieces[next] + PIECE;
        }
        own = chunk_of(s, own);
        s->ok = as_regions_add(s->target, s->store, s->runtime, own.start, own.end, &bytes, s->err);
    }
}

// --- Where the map is -------------------------------------------------------------------------------------------------

struct first_word {
    uint64_t address, word; // that is not 0
};

static bool visit_first(void *context, uint64_t address, uint64_t word)
{
    *(struct first_word *)context = (struct first_word){address, word};
    return false;
}

// Is this variable the first pointer of a root, to a leaf? What is none leaves nothing behind.
static bool try_variable(void *context, uint64_t address, uint64_t word)
{
    struct tcmalloc_search *s = context;
    struct first_word first = {0, 0};
    struct span span;
    if (!is_memory(s, word, LEAF))
        return true;
    if (s->candidates-- <= 0 || s->reads_left <= 0)
        return false;
    as_words_visit(s->target, &s->reads_left, word, word + LEAF, visit_first, &first);
    if (first.word == 0 || !read_span(s, first.word, &span))
        return true;
    uint64_t before = (span.start >> LEAF_BITS) * sizeof word;
    if ((span.start & ((1 << LEAF_BITS) - 1)) != (first.address - word) / sizeof word || before >= ROOT ||
        before > address - s->variables.start || ROOT > s->variables.end - (address - before))
        return true;
    s->found = add_map(s, address - before);
    if (!s->found) {
        s->store->regions.count = s->first_region;
        s->start = s->end = s->spans = s->mismatches = s->bytes = s->pieces.count = 0;
        s->pages[IN_USE] = s->pages[FREE] = s->pages[RETURNED] = 0;
    }
    return s->ok && !s->found;
}

static void search_mappings(struct tcmalloc_search *s)
{
    struct as_target *t = s->target;
    for (size_t i = 0; i < t->mappings.count && s->ok && !s->found; i++) {
        int64_t reads_left = FREE_READS;
        s->candidates = CANDIDATES;
        if (!as_variables_at(t, i, &s->variables) || s->variables.end - s->variables.start < ROOT)
            continue;
        as_words_visit(t, &reads_left, s->variables.start, s->variables.end, try_variable, s);
    }
}

static void keep_tcmalloc_or_drop(struct tcmalloc_search *s)
{
    as_runtime_found(s->store, s->runtime, s->bytes, "2.8 to 2.18",
                     "each of the %" PRIu64 " spans in tcmalloc's map of pages begins with the page at which the map "
                     "has it%s",
                     s->spans,
                     s->counted ? "; together they are what tcmalloc counts as taken, as free, and as returned" : "");
}

bool as_tcmalloc_find(const struct as_finder_input *in)
{
    struct tcmalloc_search s = {
        .target = in->target, .store = in->store, .err = in->err, .reads_left = FREE_READS, .ok = true};
    s.first_region = in->store->regions.count;
    s.runtime = as_runtime_add(in->store, AS_RUNTIME_TCMALLOC, AS_ROW_other_malloc, in->err);
    if (s.runtime == UINT32_MAX)
        return false;
    s.reads_left += as_runtime_read_budget(in->target, UINT64_C(1) << PAGE_BITS); // a span has a page at least
    search_mappings(&s);
    if (s.ok && s.found) {
        add_own(&s);
        keep_tcmalloc_or_drop(&s);
        s.ok = s.ok && as_regions_sort(in->store, s.first_region, in->err);
    } else {
        in->store->runtimes.count--; // ours
    }
    as_vec_free(&s.pieces);
    return s.ok;
}
