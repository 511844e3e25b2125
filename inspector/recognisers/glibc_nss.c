// SPDX-License-Identifier: MIT
// glibc's name service (2.33 and later), what getpwnam() and the like have read, and the resolver's configuration.
#include "recognisers/glibc.h"

#include <ctype.h>

enum {
    WORD = AS_GLIBC_WORD,
    LEAST_FUNCTIONS =
        40, // words of struct nss_module before its handle: a state, and functions; releases differ in how many
    MOST_FUNCTIONS = 90,
    MOST_STATE = 2, // not tried yet, loaded, failed
    MOST_MODULES = 64,
    MOST_ACTIONS = 64,
    MOST_LISTS = 1024,
    MOST_BITS = 1 << 10, // of what is to be done after an answer
    STATE_WORDS = 24,    // of struct nss_database_state, up to its lock
    STATE_SERVICES = 6,  // where they are
    SERVICES = 17,
    CONF_WORDS = 9,  // of struct resolv_conf
    CONF_MOST = 256, // of servers, and of names
    GLOBAL_WORDS = 5,
    FIRST_LIST = 2 * WORD, // of a list of actions, the next and a count are before these
    ENTRY_WORDS = 6,
    MOST_NAMES = 1 << 12, // of an entry's aliases
    AF_OF_INET = 2,
    AF_OF_INET6 = 10,
    INET = 4,
    INET6 = 16,
};

// A module's name, as in libnss_NAME.so.2: its length; 0: it is none.
static uint64_t name_at(struct as_glibc *g, uint64_t address)
{
    char text[AS_GLIBC_MOST_TEXT];
    uint64_t length = as_glibc_text(g, address, text);
    for (uint64_t i = 0; length != AS_UNKNOWN && i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
            return 0;
    return length != AS_UNKNOWN ? length : 0;
}

// struct nss_module: a state, functions (left over, if it is not loaded), what dlopen() has returned, the next, and a name. The last two
// pointers before a name with which the chunk ends are these.
static bool is_nss_module(struct as_glibc *g, uint64_t pointer, uint64_t *next)
{
    uint64_t w[MOST_FUNCTIONS + 2];
    uint32_t node = as_proof_node(&g->proof, pointer);
    size_t known =
        node != AS_NO_NODE && g->tries > 0 ? as_target_read_resident(g->proof.target, pointer, w, sizeof w) / WORD : 0;
    g->tries -= g->tries > 0;
    if (known < LEAST_FUNCTIONS + 2 || (uint32_t)w[0] > MOST_STATE)
        return false;
    for (size_t i = known - 2; i >= LEAST_FUNCTIONS; i--) {
        uint64_t name = pointer + (i + 2) * WORD;
        if ((w[i] != 0 && !as_glibc_is_link_map(g, w[i])) ||
            (w[i + 1] != 0 && as_proof_node(&g->proof, w[i + 1]) == AS_NO_NODE) ||
            as_index_target(g->proof.patterns->index, name) != node)
            continue;
        uint64_t length = name_at(g, name);
        *next = w[i + 1];
        if (length > 0 && as_proof_is_made_for(&g->proof, pointer, name - pointer + length + 1))
            return true;
    }
    return false;
}

static bool is_module(struct as_glibc *g, uint64_t pointer)
{
    uint32_t node = as_proof_node(&g->proof, pointer);
    return node != AS_NO_NODE && as_pattern_shape(g->proof.patterns, node) == AS_SHAPE_NSS_MODULE;
}

void as_glibc_modules_match(struct as_glibc *g, uint64_t pointer)
{
    unsigned count = 0;
    uint64_t next;
    for (uint64_t at = pointer; at != 0; at = next)
        if (++count > MOST_MODULES || !is_nss_module(g, at, &next))
            return;
    for (uint64_t at = pointer; at != 0 && is_nss_module(g, at, &next); at = next)
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_NSS_MODULE);
}

// The next list; how many actions; for each a module and what is to be done, and the last has no module.
static bool is_list(struct as_glibc *g, uint64_t pointer, uint64_t *next)
{
    uint64_t w[2 + 2 * MOST_ACTIONS];
    if (as_proof_node(&g->proof, pointer) == AS_NO_NODE || !as_glibc_read(g, pointer, w, FIRST_LIST) || w[1] < 2 ||
        w[1] > MOST_ACTIONS || !as_proof_is_made_for(&g->proof, pointer, FIRST_LIST + w[1] * FIRST_LIST) ||
        !as_glibc_read(g, pointer + FIRST_LIST, w + 2, w[1] * FIRST_LIST))
        return false;
    for (uint64_t i = 0; i < w[1]; i++) {
        bool last = i + 1 == w[1];
        if ((uint32_t)w[3 + 2 * i] > MOST_BITS || (last ? w[2 + 2 * i] != 0 : !is_module(g, w[2 + 2 * i])))
            return false;
    }
    *next = w[0];
    return true;
}

static bool match_lists(struct as_glibc *g, uint64_t pointer)
{
    unsigned count = 0;
    uint64_t next;
    for (uint64_t at = pointer; at != 0; at = next)
        if (++count > MOST_LISTS || !is_list(g, at, &next))
            return false;
    for (uint64_t at = pointer; at != 0 && is_list(g, at, &next); at = next)
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_NSS_ACTIONS);
    return true;
}

// For each database, nothing, or the actions of such a list.
static bool match_state(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[STATE_WORDS], next;
    bool any = false;
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (node == AS_NO_NODE || !as_glibc_read(g, pointer, w, sizeof w))
        return false;
    for (int i = 0; i < SERVICES; i++) {
        uint64_t list = w[STATE_SERVICES + i];
        if (list != 0 && !is_list(g, list - FIRST_LIST, &next))
            return false;
        any = any || list != 0;
    }
    if (any)
        as_glibc_give(g, node, AS_SHAPE_NSS_STATE);
    return any;
}

static bool is_inside(const struct as_glibc *g, uint32_t node, uint64_t pointer)
{
    return as_index_target(g->proof.patterns->index, pointer) == node;
}

// struct resolv_conf: servers, names to search, and addresses to sort by, all behind it.
static bool is_conf(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[CONF_WORDS], first;
    uint16_t family;
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (node == AS_NO_NODE || !as_glibc_read(g, pointer, w, sizeof w) || w[0] == 0 || w[0] > UINT32_MAX ||
        w[2] > CONF_MOST || w[4] > CONF_MOST || w[6] > CONF_MOST || w[2] + w[4] == 0)
        return false;
    for (int i = 1; i < 7; i += 2)
        if (w[i + 1] != 0 && (w[i] == pointer || !is_inside(g, node, w[i])))
            return false;
    if (w[2] != 0)
        return as_glibc_read(g, w[1], &first, sizeof first) && is_inside(g, node, first) && first != pointer &&
               as_glibc_read(g, first, &family, sizeof family) && (family == AF_OF_INET || family == AF_OF_INET6);
    return as_glibc_read(g, w[3], &first, sizeof first) && is_inside(g, node, first) &&
           as_glibc_text(g, first, NULL) != AS_UNKNOWN;
}

// struct resolv_conf_global: an array of all (how many, its room, where it is), the first free place of it, the current one.
static void match_resolver(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[GLOBAL_WORDS], each;
    if (!as_glibc_read(g, pointer, w, sizeof w) || w[0] == 0 || w[0] > CONF_MOST || w[1] < w[0] || !is_conf(g, w[4]))
        return;
    bool current = false;
    for (uint64_t i = 0; i < w[0]; i++)
        current = current || (as_glibc_read(g, w[2] + i * WORD, &each, sizeof each) && each == w[4]);
    if (!current)
        return;
    as_glibc_give(g, as_proof_node(&g->proof, pointer), AS_SHAPE_RESOLV_GLOBAL);
    for (uint64_t i = 0; i < w[0]; i++)
        if (as_glibc_read(g, w[2] + i * WORD, &each, sizeof each) && is_conf(g, each))
            as_glibc_give(g, as_proof_node(&g->proof, each), AS_SHAPE_RESOLV_CONF);
}

void as_glibc_nss_match(struct as_glibc *g, uint64_t pointer)
{
    if (!match_lists(g, pointer) && !match_state(g, pointer))
        match_resolver(g, pointer);
}

// Texts of the node, each of which follows the one before.
static bool are_texts(struct as_glibc *g, uint32_t node, const uint64_t *texts, const bool *follows, size_t count)
{
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t length = is_inside(g, node, texts[i]) ? as_glibc_text(g, texts[i], NULL) : AS_UNKNOWN;
        if (length == AS_UNKNOWN || (i > 0 && (follows[i] ? texts[i] != end : texts[i] < end)))
            return false;
        end = texts[i] + length + 1;
    }
    return true;
}

// A vector of the node, up to a zero, which leads to texts or numbers of `bytes` in it.
static bool is_vector(struct as_glibc *g, uint32_t node, uint64_t vector, bool texts, unsigned *count)
{
    uint64_t entry;
    for (*count = 0; *count < MOST_NAMES; ++*count) {
        if (vector % WORD != 0 || !is_inside(g, node, vector + *count * WORD) ||
            !as_glibc_read(g, vector + *count * WORD, &entry, sizeof entry))
            return false;
        if (entry == 0)
            return true;
        if (!is_inside(g, node, entry) || (texts && as_glibc_text(g, entry, NULL) == AS_UNKNOWN))
            return false;
    }
    return false;
}

// struct passwd: name, password, numbers, name of the person, directory, shell.
static bool is_passwd(struct as_glibc *g, uint32_t node, const uint64_t w[ENTRY_WORDS])
{
    static const bool follows[] = {true, true, false, true, true};
    const uint64_t texts[] = {w[0], w[1], w[3], w[4], w[5]};
    return are_texts(g, node, texts, follows, sizeof texts / sizeof *texts);
}

// struct group: name, password, number, members.
static bool is_group(struct as_glibc *g, uint32_t node, const uint64_t w[ENTRY_WORDS])
{
    static const bool follows[] = {true, true};
    unsigned count;
    return w[2] >> 32 == 0 && are_texts(g, node, w, follows, 2) && is_vector(g, node, w[3], true, &count);
}

// struct hostent: name, aliases, kind and length of addresses, addresses.
static bool is_host(struct as_glibc *g, uint32_t node, const uint64_t w[ENTRY_WORDS])
{
    unsigned count;
    bool fits = (w[2] == ((uint64_t)INET << 32 | AF_OF_INET)) || (w[2] == ((uint64_t)INET6 << 32 | AF_OF_INET6));
    return fits && are_texts(g, node, w, NULL, 1) && is_vector(g, node, w[1], true, &count) &&
           is_vector(g, node, w[3], false, &count) && count > 0;
}

// struct servent: name, aliases, port, protocol.
static bool is_service(struct as_glibc *g, uint32_t node, const uint64_t w[ENTRY_WORDS])
{
    unsigned count;
    return (uint32_t)w[2] <= UINT16_MAX && are_texts(g, node, w, NULL, 1) && are_texts(g, node, w + 3, NULL, 1) &&
           w[3] > w[0] && is_vector(g, node, w[1], true, &count);
}

void as_glibc_entries_match(struct as_glibc *g, size_t word)
{
    const struct as_root *words = g->words.items + word;
    size_t left = g->words.count - word;
    uint64_t w[ENTRY_WORDS];
    uint32_t node = words->node;
    // All of them have two words of one chunk, one behind the other.
    if (left < 3 || words[1].node != node || words[1].address != words->address + WORD ||
        !as_glibc_read(g, words->address, w, sizeof w))
        return;
    if (is_passwd(g, node, w))
        as_glibc_give(g, node, AS_SHAPE_PASSWD);
    else if (is_host(g, node, w))
        as_glibc_give(g, node, AS_SHAPE_HOST);
    else if (is_group(g, node, w))
        as_glibc_give(g, node, AS_SHAPE_GROUP);
    else if (is_service(g, node, w))
        as_glibc_give(g, node, AS_SHAPE_SERVICE);
}
