// SPDX-License-Identifier: MIT
#include "recognisers/glibc.h"

enum {
    WORD = AS_GLIBC_WORD,
    AF_OF_INET = 2, // Linux's numbers
    AF_OF_INET6 = 10,
    SOCKADDR_IN = 16,
    SOCKADDR_IN6 = 28,
};

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

// struct addrinfo: flags and family, type and protocol, length; the address, which lies behind; a name, the next.
static void prove_addrinfo(const struct as_proof *p, uint64_t address, uint32_t node)
{
    uint64_t w[AS_ADDRINFO / WORD];
    uint16_t family;
    if (!as_target_read(p->target, address, w, sizeof w) || !as_target_read(p->target, w[3], &family, sizeof family))
        return;
    uint32_t of = (uint32_t)(w[0] >> 32), length = (uint32_t)w[2];
    bool fits = (of == AF_OF_INET && length == SOCKADDR_IN) || (of == AF_OF_INET6 && length == SOCKADDR_IN6);
    if (fits && family == of && as_proof_is_made_for(p, address, AS_ADDRINFO + length) &&
        (w[5] == 0 || as_proof_node(p, w[5]) != AS_NO_NODE))
        as_proof_give(p, node, AS_SHAPE_ADDRINFO);
}

void as_glibc_prove(struct as_proof *p, const struct as_claim *candidate)
{
    if (candidate->kind == AS_CLAIM_FILE)
        prove_file(p, candidate->address, candidate->node);
    else if (candidate->kind == AS_CLAIM_ADDRINFO)
        prove_addrinfo(p, candidate->address, candidate->node);
    else
        as_proof_give(p, candidate->node, AS_SHAPE_DIR); // its own words have said all
}
