// SPDX-License-Identifier: MIT
// The states of zlib's streams. Each begins with a pointer to its z_stream, which has a pointer back at a fixed place; then come numbers
// that follow from each other, and pointers to chunks of just the sizes that these numbers say. zlib 1.2.9 to 1.3.1; Chromium's is
// not known.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

enum {
    WORD = sizeof(uint64_t),
    STATE_IN_STREAM = 7 * WORD, // where a z_stream has the pointer to its state
    DEFLATE_WORDS = 18,         // of deflate_state, up to hash_mask
    INFLATE_WORDS = 10,         // of inflate_state, up to the window
    LEAST_BITS = 8,             // of a window
    MOST_BITS = 16,
    MOST_HASH_BITS = 24,
    POSITION = 2, // bytes of one, in the chains of hashes
    LEAST_INFLATE = 6000,
};

static bool has_stream(const struct as_proof *p, uint64_t address, uint64_t stream)
{
    uint64_t back;
    return as_target_read_u64(p->target, stream + STATE_IN_STREAM, &back) && back == address;
}

static uint32_t half(uint64_t word, bool high)
{
    return (uint32_t)(high ? word >> 32 : word);
}

// w[10] to w[17]: w_size and w_bits, w_mask, window, window_size, prev, head, ins_h and hash_size, hash_bits and hash_mask. Before zlib
// 1.2.12 one word earlier.
static bool is_deflate(const uint64_t *w)
{
    uint32_t size = half(w[0], false), bits = half(w[0], true), hashes = half(w[6], true),
             hash_bits = half(w[7], false);
    return bits >= LEAST_BITS && bits <= MOST_BITS && size == UINT32_C(1) << bits && half(w[1], false) == size - 1 &&
           w[3] == UINT64_C(2) * size && hash_bits >= LEAST_BITS && hash_bits <= MOST_HASH_BITS &&
           hashes == UINT32_C(1) << hash_bits && half(w[7], true) == hashes - 1;
}

static void prove_deflate(const struct as_proof *p, uint64_t address, uint32_t node)
{
    uint64_t w[DEFLATE_WORDS];
    if (!as_target_read(p->target, address, w, sizeof w) || !has_stream(p, address, w[0]))
        return;
    const uint64_t *sizes = is_deflate(w + 10) ? w + 10 : is_deflate(w + 9) ? w + 9 : NULL;
    if (!sizes)
        return;
    uint64_t window = half(sizes[0], false), hashes = half(sizes[6], true);
    as_proof_give(p, node, AS_SHAPE_DEFLATE);
    as_proof_give_sized(p, sizes[2], 2 * window, AS_SHAPE_WINDOW);
    as_proof_give_sized(p, sizes[4], window * POSITION, AS_SHAPE_CHAINS);
    as_proof_give_sized(p, sizes[5], hashes * POSITION, AS_SHAPE_CHAINS);
    as_proof_give_sized(p, w[2], w[3], AS_SHAPE_PENDING);
}

// w[1]: mode and last; w[7]: wbits and wsize; w[9]: the window.
static void prove_inflate(const struct as_proof *p, uint64_t address, uint32_t node)
{
    uint64_t w[INFLATE_WORDS], end = as_index_address(p->patterns->index, node + 1);
    if (!as_target_read(p->target, address, w, sizeof w) || !has_stream(p, address, w[0]) ||
        end - address < LEAST_INFLATE || half(w[1], true) > 1)
        return;
    uint32_t bits = half(w[7], false), size = half(w[7], true);
    if (bits > MOST_BITS || (size != 0 && size != UINT32_C(1) << bits))
        return;
    as_proof_give(p, node, AS_SHAPE_INFLATE);
    if (size != 0)
        as_proof_give_sized(p, w[9], size, AS_SHAPE_WINDOW);
}

void as_zlib_prove(struct as_proof *p, const struct as_claim *candidate)
{
    if (candidate->kind == AS_CLAIM_DEFLATE)
        prove_deflate(p, candidate->address, candidate->node);
    else
        prove_inflate(p, candidate->address, candidate->node);
}
