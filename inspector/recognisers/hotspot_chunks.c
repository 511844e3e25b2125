// SPDX-License-Identifier: MIT
// What HotSpot's arenas have given back: chunks that a pool keeps for the next arena, and whose old words lead anywhere.
//
// Variables of libjvm lead to the pools (JDK 17: ChunkPool has the first chunk, how many there are, how many are in use, and their size),
// or are the pools (JDK 21 and later: the first chunk, and how many
// bytes each has behind its header). Each chunk begins with the next one and that number of bytes.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    HEADER = 2 * WORD,       // of a chunk
    LATER_HEADER = 3 * WORD, // JDK 25
    POOL_WORDS = 4,
    POOL_SLACK = 16, // bytes that os::malloc may add
    LEAST_CHUNK = 128,
    MOST_CHUNK = 1 << 16,
    MOST_CHUNKS = 1 << 18,
    MOST_TRIES = 1 << 20, // reads
};

struct hotspot_chunks {
    struct as_proof proof;
    uint64_t tries; // that are left
};

// What lies beside an old word leads to no array.
static void give_shape(const struct hotspot_chunks *h, uint64_t pointer, enum as_shape shape)
{
    uint32_t node = as_proof_node(&h->proof, pointer);
    as_proof_give(&h->proof, node, shape);
    h->proof.patterns->of_node[node] = AS_PATTERN_NONE;
}

// Follows the chunks of a pool, which have a header and so many bytes behind it. Returns how many there are; 0: it is
// no pool. `give`: names them.
static uint64_t follow_pool(struct hotspot_chunks *h, uint64_t first, uint64_t header, uint64_t bytes, bool give)
{
    uint64_t count = 0, w[2];
    if (bytes < LEAST_CHUNK || bytes > MOST_CHUNK)
        return 0;
    for (uint64_t at = first; at != 0; at = w[0]) {
        if (h->tries == 0 || ++count > MOST_CHUNKS || !as_proof_is_made_for(&h->proof, at, header + bytes))
            return 0;
        h->tries--;
        if (!as_target_read(h->proof.target, at, w, sizeof w) || w[1] != bytes)
            return 0;
        if (give)
            give_shape(h, at, AS_SHAPE_HOTSPOT_CHUNK);
    }
    return count;
}

// The size in it has the chunk's header in it.
static bool is_pool(struct hotspot_chunks *h, uint64_t pointer, uint64_t w[POOL_WORDS])
{
    bool fits = false;
    for (uint64_t more = 0; !fits && more <= POOL_SLACK; more += WORD)
        fits = as_proof_is_made_for(&h->proof, pointer, POOL_WORDS * WORD + more);
    return fits && as_target_read(h->proof.target, pointer, w, POOL_WORDS * WORD) && w[1] > 0 && w[1] <= MOST_CHUNKS &&
           w[3] > HEADER && follow_pool(h, w[0], HEADER, w[3] - HEADER, false) == w[1];
}

static void match_at(struct hotspot_chunks *h, uint64_t address)
{
    uint64_t words[2], pool[POOL_WORDS];
    if (h->tries == 0 || !as_target_read(h->proof.target, address, words, sizeof words))
        return;
    h->tries--;
    if (is_pool(h, words[0], pool)) {
        give_shape(h, words[0], AS_SHAPE_HOTSPOT_POOL);
        follow_pool(h, pool[0], HEADER, pool[3] - HEADER, true);
        return;
    }
    for (uint64_t header = HEADER; header <= LATER_HEADER; header += WORD)
        if (follow_pool(h, words[0], header, words[1], false) > 0)
            follow_pool(h, words[0], header, words[1], true);
}

bool as_hotspot_chunks_find(const struct as_recogniser_input *in)
{
    struct hotspot_chunks h = {.proof = {.patterns = in->patterns, .target = in->target}, .tries = MOST_TRIES};
    const struct as_roots *r = in->roots;
    uint32_t module = UINT32_MAX;
    for (uint32_t i = 0; i < in->modules->list.count; i++)
        if (strcmp(as_module_name(in->modules, &in->modules->list.items[i]), "libjvm.so") == 0)
            module = i;
    AS_FOR_EACH_WHILE(module != UINT32_MAX, const struct as_root, root, &r->list) {
        const struct as_root_source *source = &r->sources.items[root->source];
        if (source->kind == AS_ROOT_GLOBAL && source->module == module && root->begins)
            match_at(&h, root->address);
    }
    return true;
}
