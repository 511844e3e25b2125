// SPDX-License-Identifier: MIT
#include "graph/edge_reader.h"
#include "base/align.h"
#include "base/memory.h"
#include "base/workers.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_WORKERS = 4,
    BLOCK = 1 << 18, // bytes read at a time: they stay in the second-level cache
    BESIDE = 256, // bytes behind a block that are read too: a pointer's neighbours may lie there, or the rest of a text
    BEFORE = 16,  // bytes before a block that are kept of the block before, likewise
    WORD = sizeof(uint64_t),
    BYTE = 8,
    // A node's shape says, until the edges are settled, which of its last words are edges, the last first.
    TAIL_SHIFT = 5,
    TAIL = (1 << AS_MOST_SPARE) - 1,
};
_Static_assert(AS_SHAPE_ZEROS < 1 << TAIL_SHIFT && AS_SHAPE_BEGINS < 1 << TAIL_SHIFT, "a shape and the tail have room");
static const uint64_t PIECE = UINT64_C(16) << 20; // what a worker takes at a time, bytes

struct edge_reading {
    const struct as_index *index;
    struct as_target *target;
    struct as_edges *edges;
    const struct as_edge_readers *readers;
    struct as_pieces pieces;
    atomic_size_t next;
    atomic_bool failed;
};

struct worker {
    pthread_t id;
    struct edge_reading *reading;
    struct as_vtable_words words;
    uint8_t *block;
    uint64_t unread;
    struct as_error err;
    bool failed;
    // The fields below describe the current node.
    bool gap;       // it is one
    bool fresh;     // none of its words has been seen yet
    bool mmapped;   // its last word is its own: no chunk follows
    bool object;    // some of its words hold nothing
    bool cut;       // of the block: not all of it could be read
    uint8_t recent; // a bit for each word up to its last edge, the last first: it is an edge
    uint32_t node;
    uint32_t last;   // where its last edge leads
    unsigned taken;  // words that come next and are still its header
    uint64_t memory; // what malloc returned for it: address
    uint64_t set;    // bits that are set in any of its words
    uint64_t edge;   // the word of its last edge: address
    struct as_piece *piece;
    struct as_edge_batch found; // its edges
    // The fields below describe the block.
    uint64_t address;
    const uint8_t *limit; // where what was read ends
    const uint8_t *known; // where what is known of the words before it begins
    const uint8_t *own;   // where the current node's own words end, at `limit` at the latest
    uint64_t seen;        // where the block before ended
};

// Pushes an edge from the word at `address`. Far behind the beginning, neighbours that lead to one node are one edge: a
// table full of the same pointer is that.
static void add_edge(struct worker *w, uint64_t address, uint32_t to, bool begins)
{
    uint64_t place = (address - w->memory) / WORD;
    if (to == w->last && place >= AS_PLACES_APART)
        return;
    if (!as_edge_batch_add(&w->found, w->node, to, place, begins, &w->err)) {
        w->failed = true;
        return;
    }
    uint64_t apart = (address - w->edge) / WORD;
    w->recent = (uint8_t)((apart < BYTE ? w->recent << apart : 0) | 1);
    w->edge = address;
    w->last = to;
}

static void follow_word(struct worker *w, const uint8_t *at, uint64_t word)
{
    bool begins;
    uint64_t address = w->address + (uint64_t)(at - w->block);
    uint32_t to = as_index_pointer(w->reading->index, word, &begins);
    if (to == AS_NO_NODE || to == w->node)
        return;
    const struct as_objects *objects = w->reading->readers->objects;
    if (objects->of_node && (as_object_is_listed(objects, w->reading->index, to, word) ||
                             (w->object && as_object_holds_nothing(objects, w->node, address - w->memory, to))))
        return;
    size_t known = (size_t)(at - w->known) / WORD, own = (size_t)(address - w->memory) / WORD;
    const struct as_beside beside = {address, at, known < own ? known : own, (size_t)(w->own - at) / WORD};
    if (begins && as_node_is_chunk(objects, w->reading->index, to)) // patterns know how malloc rounds up
        as_pattern_match(w->reading->readers->patterns, to, &beside);
    else if (!begins && !as_index_is_mapped(w->reading->index, to))
        as_claim_inside(&w->reading->readers->patterns->claims, to, &beside);
    add_edge(w, address, to, begins);
}

static void add_words(struct worker *w, const uint8_t *bytes, size_t count)
{
    const uint64_t low = w->reading->index->low + AS_HEADER, size = w->reading->index->size;
    uint64_t set = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * WORD, sizeof word);
        set |= word;
        if (word - low < size)
            follow_word(w, bytes + i * WORD, word);
    }
    w->set |= set;
}

// The current node ends at `end`.
static void end_node(struct worker *w, uint64_t end)
{
    uint8_t *shape = &w->reading->readers->patterns->shape[w->node];
    if (w->gap)
        return;
    if (w->set == 0 && !w->fresh)
        *shape = AS_SHAPE_ZEROS;
    uint64_t usable = w->piece->blocks ? end + AS_HEADER : w->mmapped ? end : end + WORD;
    uint64_t behind = (usable - w->edge) / WORD - 1;
    if (w->recent != 0 && behind < AS_MOST_SPARE)
        *shape |= (uint8_t)((w->recent << behind & TAIL) << TAIL_SHIFT);
}

static void begin_node(struct worker *w, uint64_t address, uint64_t size_field)
{
    end_node(w, address);
    w->node++;
    w->memory = address + AS_HEADER;
    w->last = AS_NO_NODE;
    w->fresh = true;
    w->gap = as_index_is_gap(w->reading->index, w->node);
    w->mmapped = !w->piece->blocks && size_field & AS_IS_MMAPPED;
    w->object = as_object_of(w->reading->readers->objects, w->node) != 0;
    w->recent = 0;
    w->set = w->cut;
    w->failed |= !as_edge_batch_begin(&w->found, &w->err);
}

static void take_first_word(struct worker *w, const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    w->fresh = false;
    if (w->piece->mapped)
        return;
    bool begins; // what leads to a chunk leads to no vtable
    if (as_index_pointer(w->reading->index, word, &begins) == AS_NO_NODE)
        as_vtable_word(&w->words, w->reading->readers->vtables, w->node, word);
    as_pattern_begin(w->reading->readers->patterns, w->node, bytes, (size_t)(w->limit - bytes));
    if (!w->piece->blocks)
        as_claim_first(&w->reading->readers->patterns->claims, w->node, w->memory, bytes, (size_t)(w->limit - bytes));
}

// How many words behind the beginning of the 16 bytes in which the next node begins are still the current one's: the first of the two
// of a chunk's header, but of a mapping of its own none; of a runtime's block all up to the next one's memory.
static unsigned words_behind(const struct worker *w, bool late)
{
    return w->piece->blocks ? 2 + late : !w->mmapped;
}

static uint64_t starts_at(const struct as_index *x, uint64_t address)
{
    const struct as_leaf_word *word = as_index_word(x, address);
    return word ? word->starts >> (address >> AS_UNIT_SHIFT & 63) : 0;
}

// Where the current node's own words end; `words` of them from `bytes` on are known; `ends`: these are all. Behind them is the next chunk's
// size, which is no number of the program's.
static const uint8_t *end_of_own(const struct worker *w, const uint8_t *bytes, unsigned words, bool ends)
{
    const struct as_index *x = w->reading->index;
    uint64_t own = (uint64_t)(bytes - w->block) + (uint64_t)words * WORD, limit = (uint64_t)(w->limit - w->block);
    if (!ends) {
        uint64_t starts = starts_at(x, w->address + own), end = as_align_down(w->piece->end, AS_ALIGNMENT);
        bool late = starts != 0 ? as_index_is_late(x, w->node + 1) : w->piece->end != end;
        own = starts != 0 ? own + (uint64_t)__builtin_ctzll(starts) * AS_ALIGNMENT : end - w->address;
        own += (uint64_t)words_behind(w, late) * WORD;
    }
    return w->block + (own < limit ? own : limit);
}

// Goes through `units` times 16 bytes, in which nodes begin as `starts` says.
static void read_units(struct worker *w, uint64_t starts, const uint8_t *bytes, unsigned units)
{
    unsigned words = 2 * units, at = w->taken;
    w->taken = 0;
    for (;;) {
        bool ends = starts != 0 && (unsigned)__builtin_ctzll(starts) < units;
        unsigned next = ends ? 2 * (unsigned)__builtin_ctzll(starts) : words;
        bool late = ends && as_index_is_late(w->reading->index, w->node + 1);
        if (!w->gap) {
            if (w->fresh && at < next)
                take_first_word(w, bytes + (size_t)at * WORD);
            unsigned last = ends ? next + words_behind(w, late) : words;
            w->own = end_of_own(w, bytes, last, ends);
            add_words(w, bytes + (size_t)at * WORD, last > at ? last - at : 0);
        }
        if (!ends)
            return;
        uint64_t size_field;
        memcpy(&size_field, bytes + (size_t)next * WORD + WORD, sizeof size_field);
        begin_node(w, w->address + (uint64_t)(bytes - w->block) + (uint64_t)next * WORD + (late ? AS_LATE : 0),
                   size_field);
        starts &= starts - 1;
        at = next + 2 + late;
        w->taken = at > words ? at - words : 0;
    }
}

// Does any node begin in there?
static bool has_starts(const struct as_index *x, uint64_t start, uint64_t end)
{
    struct as_node_cursor c = as_nodes_of(x, start, end);
    uint32_t node;
    uint64_t address;
    return as_node_next(&c, &node, &address);
}

static void read_block(struct worker *w, uint64_t start, uint64_t end)
{
    const struct as_index *x = w->reading->index;
    if (w->gap && !has_starts(x, start, end)) {
        w->taken = 0;
        return;
    }
    // What would be the header of a region's first block is nobody's: the page before may not be there.
    bool nobodys = w->piece->blocks && start < w->piece->start + AS_HEADER &&
                   start % AS_SMALLEST_PAGE + AS_HEADER >= AS_SMALLEST_PAGE;
    size_t before = nobodys ? AS_HEADER : 0;
    memset(w->block, 0, before);
    size_t got = before + as_target_read_resident(w->reading->target, start + before, w->block + before,
                                                  end - start - before + BESIDE);
    w->known = start == w->seen ? w->block - BEFORE : w->block;
    w->address = start;
    w->limit = w->block + got;
    w->cut = got < end - start;
    w->set |= w->cut;
    if (got < end - start) {
        memset(w->block + got, 0, end - start - got);
        w->unread += w->piece->mapped ? 0 : end - start - got;
    }
    for (uint64_t at = start; at < end && !w->failed;) {
        uint64_t next = as_align_down(at, UINT64_C(1) << AS_WORD_SHIFT) + (UINT64_C(1) << AS_WORD_SHIFT);
        next = next < end ? next : end;
        read_units(w, starts_at(x, at), w->block + (at - start), (unsigned)((next - at) / AS_ALIGNMENT));
        at = next;
    }
    memcpy(w->block - BEFORE, w->block + (end - start) - BEFORE, BEFORE);
    w->seen = end;
}

static void read_piece(struct worker *w, struct as_piece *p)
{
    // Nodes may begin in the middle of 16 bytes.
    uint64_t start = as_align_down(p->start, AS_ALIGNMENT), end = as_align_down(p->end, AS_ALIGNMENT);
    w->piece = p;
    w->node = as_index_at(w->reading->index, p->start) - 1; // no node yet
    w->gap = true;
    w->seen = w->taken = 0;
    for (uint64_t at = start; at < end && !w->failed;) {
        uint64_t next = as_align_down(at, BLOCK) + BLOCK;
        next = next < end ? next : end;
        read_block(w, at, next);
        at = p->mapped && next < end ? as_target_skip_absent(w->reading->target, next, end) : next;
    }
    unsigned words = w->gap || w->failed ? 0 : words_behind(w, p->end != end); // of its words, those behind the piece
    unsigned behind = words > w->taken ? words - w->taken : 0;
    end += (uint64_t)w->taken * WORD;
    if (behind > 0 && as_target_read(w->reading->target, end, w->block, (size_t)behind * WORD)) {
        w->address = end;
        w->limit = w->block + (size_t)behind * WORD;
        w->known = w->block;
        w->own = w->limit;
        add_words(w, w->block, behind);
    } else if (behind > 0) {
        w->set = 1; // nobody knows
    }
    end_node(w, p->end);
}

static void *run_edge_worker(void *argument)
{
    struct worker *w = argument;
    struct edge_reading *r = w->reading;
    for (size_t i; !r->failed && (i = r->next++) < r->pieces.list.count;) {
        read_piece(w, &r->pieces.list.items[i]);
        if (!w->failed)
            w->failed = !as_pieces_finish(&r->pieces, w->piece, &w->found, &w->err);
        if (w->failed)
            r->failed = true;
    }
    return NULL;
}

static bool add_piece(struct edge_reading *r, uint64_t start, uint64_t end, struct as_error *err)
{
    bool mapped = as_index_is_mapped(r->index, as_index_at(r->index, start));
    bool blocks = mapped || as_objects_has(r->readers->objects, start + AS_HEADER);
    return as_vec_push(&r->pieces.list, err,
                       (struct as_piece){.start = start, .end = end, .mapped = mapped, .blocks = blocks});
}

// Cuts the heaps into pieces, each of which ends where a node begins.
static bool cut(struct edge_reading *r, struct as_error *err)
{
    for (size_t i = 0; i < r->index->extents.count; i++) {
        uint64_t start = r->index->extents.items[i].start, end = r->index->extents.items[i].end;
        while (end - start > PIECE) {
            struct as_node_cursor c = as_nodes_of(r->index, start + PIECE, end);
            uint32_t node;
            uint64_t at;
            if (!as_node_next(&c, &node, &at))
                break;
            if (!add_piece(r, start, at, err))
                return false;
            start = at;
        }
        if (!add_piece(r, start, end, err))
            return false;
    }
    return true;
}

static bool open_worker(struct worker *w, struct edge_reading *r, struct as_error *err)
{
    *w = (struct worker){.reading = r};
    uint8_t *room = as_memory_map(BEFORE + BLOCK + BESIDE, "a block of the heap", err);
    w->block = room ? room + BEFORE : NULL;
    return room;
}

static void close_worker(struct worker *w)
{
    as_edge_batch_free(&w->found);
    as_memory_unmap(w->block - BEFORE, BEFORE + BLOCK + BESIDE);
    as_vtable_words_free(&w->words);
}

// Reads all pieces, with as many threads as there are processors.
static bool read_pieces(struct edge_reading *r, struct as_error *err)
{
    struct worker workers[MOST_WORKERS] = {0};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = r->target->kind != AS_TARGET_PROCESS || processors < 1 ? 1
                    : processors < MOST_WORKERS                            ? (size_t)processors
                                                                           : MOST_WORKERS;
    size_t opened = 0, started = 1;
    while (opened < wanted && open_worker(&workers[opened], r, err))
        opened++;
    if (opened == 0)
        return false;
    while (started < opened && as_worker_start(&workers[started].id, run_edge_worker, &workers[started]))
        started++;
    run_edge_worker(&workers[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(workers[i].id, NULL);
    for (size_t i = 0; i < opened; i++) {
        r->edges->unread += workers[i].unread;
        if (workers[i].failed)
            *err = workers[i].err;
        close_worker(&workers[i]);
    }
    return !r->failed;
}

bool as_edges_read(struct as_edges *e, const struct as_index *x, struct as_target *t,
                   const struct as_edge_readers *readers, struct as_error *err)
{
    struct edge_reading r = {.index = x, .target = t, .edges = e, .readers = readers};
    as_pieces_open(&r.pieces, x, e);
    bool ok = as_edges_open(e, x->count, err) && cut(&r, err) && read_pieces(&r, err) && as_edges_close(e, err);
    as_pieces_close(&r.pieces);
    return ok;
}

struct settling {
    struct as_patterns *patterns;
    uint64_t dropped; // edges
};

// Edges from text, and from words that a chunk's owner does not use, are left over from chunks that lay there before.
static uint32_t keep_used(void *context, struct as_edges *e, uint32_t node, uint32_t first, uint32_t end)
{
    struct settling *s = context;
    unsigned tail = s->patterns->shape[node] >> TAIL_SHIFT;
    s->patterns->shape[node] &= (1 << TAIL_SHIFT) - 1;
    bool text = as_pattern_of(s->patterns, node) == AS_PATTERN_TEXT;
    uint32_t unused = text ? 0 : as_count_bits(tail & ((1U << as_pattern_spare(s->patterns, node)) - 1));
    if (!text && unused == 0)
        return end;
    uint32_t count = as_edges_count(e, first, end), kept = first;
    for (uint32_t left = text ? 0 : count - unused; left > 0; left--)
        kept = as_edge_next(e, kept);
    s->dropped += text ? count : unused;
    return kept;
}

bool as_edges_settle(struct as_edges *e, struct as_patterns *patterns, struct as_error *err)
{
    struct settling s = {.patterns = patterns};
    bool ok = as_edges_sieve(e, keep_used, &s, err);
    e->pointers -= s.dropped;
    return ok;
}
