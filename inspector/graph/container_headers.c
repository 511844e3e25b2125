// SPDX-License-Identifier: MIT
#include "graph/container_headers.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    TABLE_WORDS = 5,
    DEQUE_WORDS = 10,
    BLOCKS_WORDS = 6,
    MOST_ANCHORS = 1 << 22,
    LEAST_EMPTY = 11, // buckets of an empty table: what is smaller fits by chance
    LEAST_MAP = 8,    // std::deque's array of blocks is never shorter
    NODE_WORDS = 4,   // of a node that are read
    BATCH = 256,      // nodes read at a time
    TREE_HEADER = 2,  // words before std::map's pointer to its leftmost node: the header's own colour and the root
};
#define MOST_COUNT (UINT64_C(1) << 31)
void as_anchors_open(struct as_anchors *a, const struct as_index *x, uint32_t page_size)
{
    *a = (struct as_anchors){.index = x, .page_size = page_size};
    pthread_mutex_init(&a->lock, NULL);
}

void as_anchors_close(struct as_anchors *a)
{
    if (!a->index)
        return;
    pthread_mutex_destroy(&a->lock);
    as_vec_free(&a->list);
    *a = (struct as_anchors){0};
}

// What cannot be noted stays without a type.
static void note(struct as_anchors *a, struct as_anchor anchor)
{
    pthread_mutex_lock(&a->lock);
    struct as_anchor *added = a->list.count < MOST_ANCHORS ? as_vec_add(&a->list, NULL) : NULL;
    if (added)
        *added = anchor;
    pthread_mutex_unlock(&a->lock);
}

// The chunk that begins at `pointer`; AS_NO_NODE: none does.
static uint32_t beginning(const struct as_anchors *a, uint64_t pointer)
{
    bool begins = false;
    uint32_t node = as_index_pointer(a->index, pointer, &begins);
    return begins ? node : AS_NO_NODE;
}

static bool is_made_for(const struct as_anchors *a, uint32_t node, uint64_t pointer, uint64_t request)
{
    uint64_t usable;
    return as_index_is_made_for(a->index, node, pointer - AS_HEADER, request, a->page_size, &usable);
}

static bool is_table(const uint64_t *w, size_t known)
{
    uint32_t load = known >= TABLE_WORDS ? (uint32_t)w[4] : 0;
    return load >= AS_LEAST_LOAD && load <= AS_MOST_LOAD && w[3] < MOST_COUNT &&
           (w[2] != 0 ? w[3] != 0 : w[3] == 0 && w[1] >= LEAST_EMPTY);
}

static void note_table(struct as_anchors *a, uint32_t node, uint64_t address, const uint64_t *w)
{
    struct as_anchor anchor = {AS_ANCHOR_TABLE, AS_FEW_NONE, node, AS_NO_NODE, address, w[3], 0};
    if (!is_made_for(a, node, w[0], w[1] * WORD))
        return;
    if (w[2] != 0 && (anchor.other = beginning(a, w[2])) == AS_NO_NODE)
        return;
    note(a, anchor);
}

// Is there a position (element, its block's begin and end, the block's place in the array) in the array of `length` blocks?
static bool is_position(const uint64_t *p, uint64_t array, uint64_t length)
{
    return p[1] <= p[0] && p[0] < p[2] && p[3] >= array && p[3] - array < length * WORD && (p[3] - array) % WORD == 0;
}

static bool is_deque(const uint64_t *w, size_t known)
{
    const uint64_t *first = w + 2, *last = w + 6;
    return known >= DEQUE_WORDS && w[1] >= LEAST_MAP && is_position(first, w[0], w[1]) &&
           is_position(last, w[0], w[1]) && first[3] <= last[3] && first[2] - first[1] == last[2] - last[1];
}

static void note_deque(struct as_anchors *a, uint32_t node, uint64_t address, const uint64_t *w)
{
    const uint64_t *first = w + 2, *last = w + 6;
    uint32_t block = beginning(a, first[1]);
    if (block == AS_NO_NODE || !is_made_for(a, node, w[0], w[1] * WORD) ||
        !is_made_for(a, block, first[1], first[2] - first[1]))
        return;
    note(a, (struct as_anchor){AS_ANCHOR_DEQUE, AS_FEW_NONE, node, block, address, (last[3] - first[3]) / WORD + 1,
                               (uint32_t)((first[3] - w[0]) / WORD)});
}

// Pointers begin, first, last, end; the first element's number, and how many there are.
static bool is_blocks(const uint64_t *w, size_t known)
{
    return known >= BLOCKS_WORDS && w[1] >= w[0] && w[2] > w[1] && w[3] >= w[2] && w[3] - w[0] < MOST_COUNT &&
           (w[1] - w[0]) % WORD == 0 && (w[2] - w[1]) % WORD == 0 && w[4] < MOST_COUNT && w[5] - 1 < MOST_COUNT;
}

void as_anchor_match(struct as_anchors *a, uint32_t node, const struct as_beside *b)
{
    uint64_t w[DEQUE_WORDS] = {0};
    size_t known = b->count < DEQUE_WORDS ? b->count : DEQUE_WORDS;
    memcpy(w, b->words, known * WORD);
    if (w[1] - 1 < MOST_COUNT) {
        if (is_table(w, known))
            note_table(a, node, b->address, w);
        else if (is_deque(w, known))
            note_deque(a, node, b->address, w);
    } else if (w[2] - 1 < 2) {
        uint32_t other = beginning(a, w[1]);
        if (other != AS_NO_NODE && (other == node || w[2] == 2))
            note(a, (struct as_anchor){AS_ANCHOR_FEW, AS_FEW_NONE, node, other, b->address, w[2], 0});
    } else if (is_blocks(w, known) && is_made_for(a, node, w[0], w[3] - w[0])) {
        note(a, (struct as_anchor){AS_ANCHOR_BLOCKS, AS_FEW_NONE, node, AS_NO_NODE, b->address, (w[2] - w[1]) / WORD,
                                   (uint32_t)((w[1] - w[0]) / WORD)});
    }
}

struct few {
    uint64_t address[2]; // of the nodes at the header's words
    uint64_t words[2][NODE_WORDS];
    bool ok[2];
};

// std::list: the header is a link of the ring, next and previous.
static bool is_list(const struct few *f, uint64_t header)
{
    return f->words[0][0] == (f->address[0] != f->address[1] ? f->address[1] : header) && f->words[0][1] == header &&
           f->words[1][0] == header && f->words[1][1] == (f->address[0] != f->address[1] ? f->address[0] : header);
}

// A tree of nodes whose links to the parent, left and right are those words: `parent` is the root's.
static bool is_tree(const struct few *f, size_t up, size_t left, size_t right, size_t root, uint64_t parent)
{
    size_t leaf = 1 - root;
    const uint64_t *r = f->words[root], *l = f->words[leaf];
    if (r[up] != parent)
        return false;
    if (f->address[0] == f->address[1])
        return r[left] == 0 && r[right] == 0;
    uint64_t to_leaf[2] = {root == 1 ? f->address[leaf] : 0, root == 1 ? 0 : f->address[leaf]};
    return r[left] == to_leaf[0] && r[right] == to_leaf[1] && l[up] == f->address[root] && l[left] == 0 &&
           l[right] == 0;
}

// libstdc++: the anchor's words are the leftmost and the rightmost. libc++: the leftmost and the root.
static enum as_few few_of(const struct few *f, uint64_t header, uint64_t count)
{
    if (!f->ok[0] || !f->ok[1])
        return AS_FEW_NONE;
    if (is_list(f, header) && count == 1 + (f->address[0] != f->address[1]))
        return AS_FEW_LIST;
    uint64_t base = header - (uint64_t)TREE_HEADER * WORD, end = header + WORD;
    if (f->address[0] == f->address[1] && count == 2)
        return f->words[0][2] == end && f->words[0][0] == 0 && f->words[0][1] != 0 ? AS_FEW_ROOT : AS_FEW_NONE;
    if (is_tree(f, 1, 2, 3, 0, base) || is_tree(f, 1, 2, 3, 1, base) || is_tree(f, 2, 0, 1, 1, end))
        return AS_FEW_TREE;
    return AS_FEW_NONE;
}

static void confirm(struct as_anchors *a, struct as_target *t, struct as_anchor **anchors, size_t count)
{
    uint64_t addresses[2 * BATCH] = {0}, words[2 * BATCH][NODE_WORDS];
    bool ok[2 * BATCH];
    for (size_t i = 0; i < count; i++) {
        addresses[2 * i] = as_index_address(a->index, anchors[i]->node) + AS_HEADER;
        addresses[2 * i + 1] = as_index_address(a->index, anchors[i]->other) + AS_HEADER;
    }
    as_target_gather(t, addresses, 2 * count, sizeof *words, words, sizeof *words, ok);
    for (size_t i = 0; i < count; i++) {
        struct few few;
        memcpy(few.address, addresses + 2 * i, sizeof few.address);
        memcpy(few.words, words + 2 * i, sizeof few.words);
        memcpy(few.ok, ok + 2 * i, sizeof few.ok);
        anchors[i]->few = few_of(&few, anchors[i]->address, anchors[i]->count);
    }
}

void as_anchors_confirm(struct as_anchors *a, struct as_target *t)
{
    struct as_anchor *batch[BATCH];
    size_t count = 0;
    for (size_t i = 0; i < a->list.count; i++) {
        if (a->list.items[i].kind == AS_ANCHOR_FEW)
            batch[count++] = &a->list.items[i];
        if (count == BATCH || (count > 0 && i + 1 == a->list.count)) {
            confirm(a, t, batch, count);
            count = 0;
        }
    }
}
