// SPDX-License-Identifier: MIT
// Structures of well-known libraries. What may be one is noted while chunks are read, by a few words; then its own memory proves it,
// or it is forgotten: pointers that lead back to it, sizes that fit, numbers that follow from each other.
#pragma once

#include "graph/container_headers.h"
#include "libc/target_modules.h"

enum as_claim_kind {
    AS_CLAIM_DEFLATE, // zlib's, by the number of a state in its second word
    AS_CLAIM_INFLATE,
    AS_CLAIM_FILE,       // glibc's, by the magic number that it begins with
    AS_CLAIM_DIR,        // by the room for entries behind it
    AS_CLAIM_ADDRINFO,   // getaddrinfo's, which leads to the address behind itself
    AS_CLAIM_SWISS,      // a table of Rust's HashMap: a pointer into a chunk, beside it a mask and how many there are
    AS_CLAIM_GLIB,       // a GHashTable: a pointer to its keys, and before it how many it has room for
    AS_CLAIM_PHP_TABLE,  // PHP's: a pointer into a chunk, before it the mask and behind it the number of places
    AS_CLAIM_PHP_STRING, // by its type, and the highest bit of its hash
    AS_CLAIM_END,        // a chunk that leads to its own end
    AS_CLAIM_MARIADB,    // by its size, which it begins with
    AS_CLAIM_SIZED,      // a pointer with the chunk's size beside it
};

enum {
    AS_PHP_TEXT = 24,       // where a string of PHP's has its text
    AS_MARIADB_HEADER = 24, // bytes before what MariaDB's my_malloc returns
    AS_MARIADB_FLAGS = 3,   // of the size in there
};
#define AS_LLVM_FREE (UINT64_MAX << 12) // the key of a place that is free, where keys are pointers

struct as_claim {
    enum as_claim_kind kind;
    uint32_t node;
    uint64_t address; // of the word beside which it was seen, or where the node's memory begins
};

struct as_claims {
    const struct as_index *index;
    uint32_t page_size;
    pthread_mutex_t lock; // of the list, while chunks are read
    AS_VEC(struct as_claim) list;
    bool dense; // a chunk begins as tables of LLVM's do (llvm.h)
};

void as_claims_open(struct as_claims *c, const struct as_index *x, uint32_t page_size);
void as_claims_close(struct as_claims *c);

enum {
    AS_INFLATE_FIRST = 16180, // zlib's states: HEAD to SYNC
    AS_INFLATE_STATES = 32,
    AS_DEFLATE_INIT = 42,
    AS_DEFLATE_BUSY = 113,
    AS_DEFLATE_FINISH = 666,
    AS_FILE_MAGIC = 0xfbad,
    AS_LEAST_DIR = 32768, // bytes: opendir's room for entries
    AS_MOST_DIR = 1 << 20,
    AS_LEAST_SIZED = 4096,
    AS_LEAST_PLACES = 8,  // of a GHashTable
    AS_LEAST_NUMBER = 15, // of bytes of a text
    AS_FIRST_WORDS = 5,   // of a chunk, that are inspected
    AS_PHP_STRING = 6,    // PHP's number for the type
    AS_PHP_TYPES = 15,
    AS_LEAST_END = 256,       // bytes of a chunk that leads to its own end
    AS_MOST_SPARE_BYTES = 32, // at a chunk's end: malloc rounds up, and splits off no less
    AS_SIZE_FLAGS = 7,        // of the size that is before a chunk's memory
    AS_SIZE_MMAPPED = 2,
    AS_ADDRINFO = 48, // bytes of a struct addrinfo, which is before the address that it leads to
};
#define AS_MOST_NUMBER (UINT64_C(1) << 36)

// Notes what may be one. May be called by several threads. Of more than MOST_CLAIMS the rest is left out.
void as_claim_note(struct as_claims *c, enum as_claim_kind kind, uint32_t node, uint64_t address);
void as_candidate_match_first(struct as_claims *c, uint32_t node, uint64_t address, const uint8_t *bytes);
void as_candidate_match_inside(struct as_claims *c, uint32_t node, const struct as_beside *b);
void as_candidate_match_beside(struct as_claims *c, uint32_t node, const struct as_beside *b);

static inline bool as_claim_is_deflate(uint32_t state)
{
    return state == AS_DEFLATE_INIT || state == AS_DEFLATE_BUSY || state == AS_DEFLATE_FINISH;
}

static inline bool as_claim_is_room(uint64_t bytes)
{
    return bytes % AS_LEAST_SIZED == 0 && bytes - AS_LEAST_DIR <= AS_MOST_DIR - AS_LEAST_DIR;
}

static inline bool as_claim_is_php_string(uint64_t first, uint64_t second)
{
    return second >> 63 && (first >> 32 & AS_PHP_TYPES) == AS_PHP_STRING;
}

// The first words of a node. `count`: bytes that are known.
static inline void as_claim_first(struct as_claims *c, uint32_t node, uint64_t address, const uint8_t *bytes,
                                  size_t count)
{
    if (count < AS_FIRST_WORDS * sizeof(uint64_t))
        return;
    uint64_t first = as_word_at(bytes, 0), second = as_word_at(bytes, 1);
    uint32_t state = (uint32_t)second;
    uint64_t header = as_word_at(bytes, -1), usable = (header & ~(uint64_t)AS_SIZE_FLAGS) - sizeof header;
    uint64_t last = address + usable, spare = header & AS_SIZE_MMAPPED ? AS_SMALLEST_PAGE : AS_MOST_SPARE_BYTES;
    bool end = usable >= AS_LEAST_END &&
               (last - first < spare || last - second < spare || last - as_word_at(bytes, 4) < spare ||
                usable + AS_MARIADB_FLAGS - AS_MARIADB_HEADER - second < spare);
    if (end || state - AS_INFLATE_FIRST < AS_INFLATE_STATES || as_claim_is_deflate(state) ||
        first >> 16 == AS_FILE_MAGIC || first == AS_LLVM_FREE || as_word_at(bytes, 3) == address + AS_ADDRINFO ||
        as_claim_is_php_string(first, second) || (first >> 32 == 0 && as_claim_is_room(second)))
        as_candidate_match_first(c, node, address, bytes);
}

// A word that leads into the middle of a node.
static inline void as_claim_inside(struct as_claims *c, uint32_t node, const struct as_beside *b)
{
    if (b->count < 3)
        return;
    uint64_t behind = as_beside_word(b, 1), before = b->before > 0 ? as_word_at(b->words, -1) : 0;
    uint32_t places = (uint32_t)as_beside_word(b, 2), mask = (uint32_t)(before >> 32);
    // A mask, of 4 buckets or more; or PHP's, which is below zero.
    if ((mask > INT32_MAX && places >= AS_LEAST_PLACES && (mask == 0 - 2 * places || mask == 0u - 2)) ||
        (behind >= 3 && behind < UINT32_MAX && (behind & (behind + 1)) == 0) ||
        (before >= 3 && before < UINT32_MAX && (before & (before + 1)) == 0))
        as_candidate_match_inside(c, node, b);
}

static inline bool as_claim_is_number(uint64_t word)
{
    return word - AS_LEAST_NUMBER < AS_MOST_NUMBER;
}

// May the chunk's size, or what glib has beside the keys, lie beside a word that leads to the beginning of a node? Most such words lie
// among other pointers and zeros, and cost no call then.
static inline bool as_claim_may_be_beside(const struct as_beside *b)
{
    if (as_beside_word(b, 1) - AS_LEAST_SIZED < AS_MOST_NUMBER ||
        (b->before > 0 && as_word_at(b->words, -1) - AS_LEAST_SIZED < AS_MOST_NUMBER))
        return true;
    uint64_t third = b->before >= 3 ? as_word_at(b->words, -3) : 0;
    return (b->before >= 3 && (uint32_t)third == (uint32_t)as_word_at(b->words, -2) + 1) ||
           (b->before >= 4 && as_word_at(b->words, -4) == (third >> 32) + 1);
}

// May the length and the capacity of a text lie beside it (texts.c)?
static inline bool as_claim_may_be_text(const struct as_beside *b)
{
    bool behind = as_claim_is_number(as_beside_word(b, 1));
    bool before = b->before > 0 && as_claim_is_number(as_word_at(b->words, -1));
    return (behind && (before || as_claim_is_number(as_beside_word(b, 2)))) ||
           (before && b->before > 1 && as_claim_is_number(as_word_at(b->words, -2)));
}
