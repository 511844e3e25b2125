// SPDX-License-Identifier: MIT
#include "recognisers/candidate_check.h"

#include <string.h>

enum { BLOCK = 4096, PHP_HASH = 5381, PHP_FACTOR = 33 };

bool as_proof_has_library(const struct as_target *t, const char *name)
{
    for (size_t i = 0; i < t->mappings.count; i++)
        if (strstr(as_strings_at(&t->strings, t->mappings.items[i].path), name))
            return true;
    return false;
}

static void prove_file(const struct as_proof *p, uint64_t address, uint32_t node)
{
    // struct locked_FILE of glibc: the magic number with flags, ..., at 136 a pointer to its lock at 224, at 216 its vtable.
    uint64_t w[28];
    if (!as_target_read(p->target, address, w, sizeof w))
        return;
    const struct as_mapping *m = as_target_mapping_at(p->target, w[27]);
    if (w[0] >> 16 == AS_FILE_MAGIC && w[17] == address + sizeof w && m && m->path != 0 && !(m->prot & AS_PROT_EXEC))
        as_proof_give(p, node, AS_SHAPE_FILE);
}

// The hash follows from the text.
static void prove_php_string(struct as_proof *p, uint64_t address, uint32_t node)
{
    uint64_t w[3], hash = PHP_HASH; // reference count and type, hash, length
    uint8_t text[BLOCK];
    if (!as_target_read(p->target, address, w, sizeof w) || w[2] > p->room)
        return;
    p->room -= w[2];
    for (uint64_t at = 0; at < w[2]; at += BLOCK) {
        size_t count = w[2] - at < BLOCK ? (size_t)(w[2] - at) : BLOCK;
        if (!as_target_read(p->target, address + AS_PHP_TEXT + at, text, count))
            return;
        for (size_t i = 0; i < count; i++)
            hash = hash * PHP_FACTOR + text[i];
    }
    if (w[1] == (hash | UINT64_C(1) << 63))
        as_proof_give(p, node, AS_SHAPE_PHP_STRING);
}

static void prove_candidate(struct as_proof *p, const struct as_claim *claim)
{
    switch (claim->kind) {
    case AS_CLAIM_DEFLATE:
        as_prove_deflate(p, claim->address, claim->node);
        break;
    case AS_CLAIM_INFLATE:
        as_prove_inflate(p, claim->address, claim->node);
        break;
    case AS_CLAIM_FILE:
        prove_file(p, claim->address, claim->node);
        break;
    case AS_CLAIM_DIR:
        as_proof_give(p, claim->node, AS_SHAPE_DIR); // its own words have said all
        break;
    case AS_CLAIM_ADDRINFO:
        as_prove_addrinfo(p, claim->address, claim->node);
        break;
    case AS_CLAIM_SWISS:
        as_prove_swiss(p, claim->address, claim->node);
        break;
    case AS_CLAIM_GLIB:
        as_prove_glib(p, claim->address);
        break;
    case AS_CLAIM_PHP_TABLE:
        as_proof_give(p, claim->node, AS_SHAPE_PHP_TABLE);
        break;
    case AS_CLAIM_PHP_STRING:
        prove_php_string(p, claim->address, claim->node);
        break;
    case AS_CLAIM_END:
        as_proof_give(p, claim->node, AS_SHAPE_END);
        break;
    case AS_CLAIM_MARIADB: // the same; but what is in it may say more
        if (!p->java && p->patterns->shape[claim->node] <= AS_SHAPE_BEGINS)
            as_proof_give(p, claim->node, AS_SHAPE_MARIADB);
        break;
    case AS_CLAIM_SIZED:
        if (p->patterns->shape[claim->node] == AS_SHAPE_NONE)
            as_proof_give(p, claim->node, AS_SHAPE_SIZED);
        break;
    }
}

bool as_claims_find(const struct as_recogniser_input *in)
{
    struct as_proof p = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES};
    p.java = as_proof_has_library(in->target, "/libjvm.so");
    const struct as_claims *c = &in->patterns->claims;
    for (int sized = 0; sized < 2; sized++) // which says least
        for (size_t i = 0; i < c->list.count; i++)
            if ((c->list.items[i].kind == AS_CLAIM_SIZED) == sized)
                prove_candidate(&p, &c->list.items[i]);
    return true;
}
