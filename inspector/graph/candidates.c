// SPDX-License-Identifier: MIT
#include "graph/candidates.h"
#include "base/align.h"

enum {
    WORD = sizeof(uint64_t),
    MOST_CLAIMS = 1 << 18,
    DIR_HEADER = 6 * WORD,
    MOST_PHP_TEXT = 1 << 20,
    MOST_MARIADB_KIND = 1 << 12
};

void as_claims_open(struct as_claims *c, const struct as_index *x, uint32_t page_size)
{
    *c = (struct as_claims){.index = x, .page_size = page_size};
    pthread_mutex_init(&c->lock, NULL);
}

void as_claims_close(struct as_claims *c)
{
    if (!c->index)
        return;
    pthread_mutex_destroy(&c->lock);
    as_vec_free(&c->list);
    *c = (struct as_claims){0};
}

void as_claim_note(struct as_claims *c, enum as_claim_kind kind, uint32_t node, uint64_t address)
{
    pthread_mutex_lock(&c->lock);
    struct as_claim *added = c->list.count < MOST_CLAIMS ? as_vec_add(&c->list, NULL) : NULL;
    if (added)
        *added = (struct as_claim){kind, node, address};
    pthread_mutex_unlock(&c->lock);
}

static bool begins_chunk(const struct as_claims *c, uint64_t pointer)
{
    bool begins = false;
    return as_index_pointer(c->index, pointer, &begins) != AS_NO_NODE && begins;
}

static bool is_made_for(const struct as_claims *c, uint32_t node, uint64_t pointer, uint64_t bytes)
{
    uint64_t usable;
    return as_index_is_made_for(c->index, node, pointer - AS_HEADER, bytes, c->page_size, &usable);
}

// Does a chunk end where the memory ends that its owner has asked for (as_index_is_made_for)?
static bool ends_behind(const struct as_claims *c, uint32_t node, uint64_t end)
{
    uint64_t next = as_align_up(end + sizeof(uint64_t), AS_ALIGNMENT) - AS_HEADER;
    const uint64_t ends[] = {next, next + AS_ALIGNMENT, as_align_up(end - sizeof(uint64_t), c->page_size),
                             as_align_up(next + AS_HEADER, c->page_size) - AS_HEADER};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (as_index_node_at(c->index, ends[i]) == node + 1)
            return true;
    return false;
}

// PHP's: reference count and type, hash, length, text, and a zero.
static void match_string(struct as_claims *c, uint32_t node, uint64_t address, uint64_t length)
{
    if (length < MOST_PHP_TEXT && is_made_for(c, node, address, as_align_up(AS_PHP_TEXT + length + 1, WORD)))
        as_claim_note(c, AS_CLAIM_PHP_STRING, node, address);
}

// An obstack's block begins with its end, nginx's with what is free and the end, those of postgres and apr have these two behind three
// other words.
static bool leads_to_end(const struct as_claims *c, uint32_t node, uint64_t address, const uint64_t w[AS_FIRST_WORDS])
{
    static const struct {
        int free, end;
    } orders[] = {{-1, 0}, {0, 1}, {3, 4}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        uint64_t end = w[orders[i].end], free = orders[i].free < 0 ? end : w[orders[i].free];
        if (end > address && free > address && free <= end && ends_behind(c, node, end))
            return orders[i].free >= 0 || w[1] == 0 || begins_chunk(c, w[1]);
    }
    return false;
}

// Whose memory it is counted as, how much it is, with flags, and a number of its kind.
static bool is_mariadb(const struct as_claims *c, uint32_t node, uint64_t address, const uint64_t w[AS_FIRST_WORDS])
{
    uint64_t bytes = w[1] & ~(uint64_t)AS_MARIADB_FLAGS, owner = w[0], kind = (uint32_t)w[2];
    return bytes >= AS_LEAST_END && bytes % WORD == 0 && bytes < AS_MOST_NUMBER && owner % WORD == 0 &&
           kind <= MOST_MARIADB_KIND && is_made_for(c, node, address, AS_MARIADB_HEADER + bytes);
}

void as_candidate_match_first(struct as_claims *c, uint32_t node, uint64_t address, const uint8_t *bytes)
{
    uint64_t w[AS_FIRST_WORDS];
    for (int i = 0; i < AS_FIRST_WORDS; i++)
        w[i] = as_word_at(bytes, i);
    uint32_t state = (uint32_t)w[1];
    if (w[0] == AS_LLVM_FREE)
        __atomic_store_n(&c->dense, true, __ATOMIC_RELAXED);
    if (as_claim_is_php_string(w[0], w[1]))
        match_string(c, node, address, w[2]);
    else if (leads_to_end(c, node, address, w))
        as_claim_note(c, AS_CLAIM_END, node, address);
    else if (is_mariadb(c, node, address, w))
        as_claim_note(c, AS_CLAIM_MARIADB, node, address);
    else if (w[3] == address + AS_ADDRINFO)
        as_claim_note(c, AS_CLAIM_ADDRINFO, node, address);
    else if (w[0] >> 16 == AS_FILE_MAGIC)
        as_claim_note(c, AS_CLAIM_FILE, node, address);
    else if (state - AS_INFLATE_FIRST < AS_INFLATE_STATES && w[0] != 0 && w[0] % WORD == 0)
        as_claim_note(c, AS_CLAIM_INFLATE, node, address);
    else if (as_claim_is_deflate(state) && w[0] != 0 && w[0] % WORD == 0 && begins_chunk(c, w[2]))
        as_claim_note(c, AS_CLAIM_DEFLATE, node, address);
    else if (w[0] >> 32 == 0 && as_claim_is_room(w[1]) && w[2] <= w[1] && w[3] <= w[2] &&
             is_made_for(c, node, address, DIR_HEADER + w[1]))
        as_claim_note(c, AS_CLAIM_DIR, node, address);
}

// PHP's, of 7.3 to 8.4: flags and mask; the pointer; places that were used and elements; places. Before the first place, where the
// pointer leads, is a number for each possible hash; in a list without keys only two. A place of such a list has 16 bytes from PHP
// 8.2 on.
static bool is_php_table(const struct as_claims *c, uint32_t node, const struct as_beside *b)
{
    enum { PLACE = 32, LIST_PLACE = 16, LIST_HASHES = 8 };
    uint64_t numbers = as_beside_word(b, 1), pointer = as_word_at(b->words, 0);
    uint32_t mask = (uint32_t)(as_word_at(b->words, -1) >> 32), places = (uint32_t)as_beside_word(b, 2);
    bool list = mask == 0u - 2, table = mask == 0 - 2 * places;
    uint64_t hashes = list ? LIST_HASHES : (uint64_t)places * WORD, memory = pointer - hashes;
    if ((!list && !table) || places < AS_LEAST_PLACES || (places & (places - 1)) != 0 || (uint32_t)numbers > places ||
        numbers >> 32 > (uint32_t)numbers || as_index_node_at(c->index, memory - AS_HEADER) != node)
        return false;
    return is_made_for(c, node, memory, hashes + (uint64_t)places * PLACE) ||
           (list && is_made_for(c, node, memory, hashes + (uint64_t)places * LIST_PLACE));
}

void as_candidate_match_inside(struct as_claims *c, uint32_t node, const struct as_beside *b)
{
    if (b->before > 0 && is_php_table(c, node, b)) {
        as_claim_note(c, AS_CLAIM_PHP_TABLE, node, b->address);
        return;
    }
    uint64_t behind = as_beside_word(b, 1), before = b->before > 0 ? as_word_at(b->words, -1) : 0;
    bool is_behind = b->count > 3 && (behind & (behind + 1)) == 0 && behind != 0;
    uint64_t mask = is_behind ? behind : before, left = as_beside_word(b, is_behind ? 2 : 1),
             items = as_beside_word(b, is_behind ? 3 : 2);
    uint64_t end = as_word_at(b->words, 0) + mask + 1; // and a group more
    if (items <= mask && left <= mask && (ends_behind(c, node, end + 2 * WORD) || ends_behind(c, node, end + WORD)))
        as_claim_note(c, AS_CLAIM_SWISS, node, b->address);
}

static bool is_table(uint64_t places, uint64_t mask)
{
    return places >= AS_LEAST_PLACES && (places & (places - 1)) == 0 && places == mask + 1;
}

void as_candidate_match_beside(struct as_claims *c, uint32_t node, const struct as_beside *b)
{
    if ((b->before >= 4 && is_table(as_word_at(b->words, -4), as_word_at(b->words, -3) >> 32)) ||
        (b->before >= 3 && is_table((uint32_t)as_word_at(b->words, -3), (uint32_t)as_word_at(b->words, -2)))) {
        as_claim_note(c, AS_CLAIM_GLIB, node, b->address);
        return;
    }
    uint64_t pointer = as_word_at(b->words, 0);
    const uint64_t sizes[2] = {as_beside_word(b, 1), b->before > 0 ? as_word_at(b->words, -1) : 0};
    for (int i = 0; i < 2; i++)
        if (sizes[i] - AS_LEAST_SIZED < AS_MOST_NUMBER && is_made_for(c, node, pointer, sizes[i])) {
            as_claim_note(c, AS_CLAIM_SIZED, node, b->address);
            return;
        }
}
