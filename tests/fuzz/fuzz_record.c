// SPDX-License-Identifier: MIT
// The reader of traces, and what adds them up: any bytes as the blocks of a file. Magic, number and checksum of each block are
// repaired first, as no fuzzer would find them.
#include "fuzz.h"

#include "trace/account.h"

#include <string.h>

enum { MOST = 1 << 20, DEEPEST = 256 };

static size_t repair(uint8_t *bytes, size_t size)
{
    struct as_trace_block b;
    size_t at = 0;
    for (uint64_t number = 0; size - at >= sizeof b; number++) {
        memcpy(&b, bytes + at, sizeof b);
        b.magic = AS_TRACE_BLOCK;
        b.number = number;
        b.size = b.size % AS_TRACE_MOST_BYTES / 8 * 8;
        if (b.size > size - at - sizeof b)
            b.size = (uint32_t)((size - at - sizeof b) / 8 * 8);
        static uint64_t payload[AS_TRACE_MOST_BYTES / sizeof(uint64_t)];
        memcpy(payload, bytes + at + sizeof b, b.size);
        b.checksum = as_trace_checksum(&b, payload);
        memcpy(bytes + at, &b, sizeof b);
        at += sizeof b + b.size;
    }
    return at;
}

static void check(const struct as_trace_account *a, const struct as_trace *r)
{
    uint64_t ended = 0, sites = 0;
    for (size_t i = 0; i < AS_TRACE_LIFETIMES; i++)
        ended += a->lifetimes[i].count;
    for (size_t i = 0; i < a->sites.count; i++)
        sites += a->sites.items[i].in_use.count;
    fuzz_check(ended + a->in_use.count == a->allocated.count, "each block has ended, or is in use");
    fuzz_check(sites == a->in_use.count && a->count == a->in_use.count, "each block in use is of a site");
    fuzz_check(a->events <= r->size / sizeof(uint64_t), "no event is read twice");
    fuzz_check(a->in_use.bytes <= a->peak.bytes, "no instant has more than the peak");
}

// Each way outwards ends, at a stack without a caller.
static void check_stacks(const struct as_trace *r)
{
    for (uint32_t number = 1; number <= r->stacks.count; number++) {
        const struct as_trace_stack *s = as_trace_stack(r, number);
        uint32_t above = s->caller ? as_trace_stack(r, s->caller)->depth : 0;
        fuzz_check(s->caller < number && s->depth == above + 1, "a caller is before what it calls");
        fuzz_check(s->depth <= DEEPEST, "no stack is deeper than a recorder's");
    }
    for (size_t i = 0; i < r->contexts.count; i++)
        fuzz_check(r->contexts.items[i].stack <= r->stacks.count, "each stack of a context is there");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[MOST];
    static struct as_trace r;
    static struct as_trace_account a;
    struct as_error err = {0};
    if (size > MOST)
        return 0;
    memcpy(bytes, data, size);
    fuzz_file(bytes, repair(bytes, size));
    bool opened = as_trace_open(&r, fuzz_file_name(), &err);
    fuzz_check(opened || err.code == AS_BAD_INPUT || err.code == AS_UNSUPPORTED, "what is no record is bad input");
    if (opened)
        check_stacks(&r);
    if (opened && as_trace_begin(&r, &err)) {
        fuzz_check(as_trace_account(&a, &r, &err), "a record is added up");
        check(&a, &r);
        as_trace_account_free(&a);
    }
    as_trace_close(&r);
    return 0;
}
