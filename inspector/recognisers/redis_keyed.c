// SPDX-License-Identifier: MIT
// What a chunk of redis' may be, since 8.2: what has its key in it.
#include "recognisers/redis_bytes.h"

enum {
    WORD = sizeof(uint64_t),
    OBJECT = 16, // bytes: type, encoding and more, pointer
    NUMBERS = 8, // at most, of a word each, that are before an object
    SET = 0x62,  // type and encoding: with numbers alone
    HAS_TIME = 1,
    HAS_POINTER = 2, // to its value
    TIME = 16,       // bytes
    NODE = 16,       // bytes of a sorted set's node before its levels: score, and which node is before
    LEVEL = 16,
    ABOUT = 24, // where a node says what it has: where its text is, how many levels
    LEVELS = 32,
};

// A chunk, of which the first `count` bytes are known.
struct bytes {
    struct as_target *target;
    uint64_t address, usable;
    const uint8_t *known;
    uint64_t count;
};

// A string inside a chunk.
struct text {
    uint64_t start, room, end; // `end`: behind the zero that is behind its room
    unsigned flags;
    bool full; // it takes all its room
};

// Has the chunk a string of that kind, with its header at `at`?
static bool accept_string(const struct bytes *b, uint64_t at, unsigned kind, struct text *t)
{
    t->start = at + as_sds_header(kind);
    if (t->start >= b->count || (b->known[t->start - 1] & 7) != kind)
        return false;
    const uint8_t *header = b->known + at;
    size_t size = kind == 0 ? 0 : (size_t)1 << (kind - 1);
    uint64_t length = kind == 0 ? header[0] >> 3 : as_redis_number(header, size);
    t->room = kind == 0 ? length : as_redis_number(header + size, size);
    t->flags = kind == 0 ? 0 : b->known[t->start - 1] >> 3;
    t->full = length == t->room;
    t->end = t->start + t->room + 1;
    return length <= t->room && t->room < b->usable && t->end <= b->usable &&
           as_redis_zero(b->target, b->address, b->known, b->count, t->start + length);
}

// Has it a value at `at`, which ends with the chunk?
static bool ends_with_value(const struct bytes *b, uint64_t at, struct text *value)
{
    return accept_string(b, at, 1, value) && value->flags == 0 && as_redis_made_for(b->usable, value->end);
}

// The first word of an object that has its key behind it, and so many numbers before.
static bool is_head(uint64_t head, unsigned numbers)
{
    uint64_t references = head >> 8 & 0x7fffff, before = head >> 34; // since 8.6, and before
    if ((head & 0xf) > AS_REDIS_TYPE || (head >> 4 & 0xf) > AS_REDIS_ENCODING)
        return false;
    return (head >> 31 & 1 && (unsigned)__builtin_popcountll(head >> 32 & 0xff) == numbers && references > 0 &&
            references <= AS_REDIS_REFERENCES) ||
           (head >> 32 & 1 && (head >> 33 & 1) == numbers && before > 0 && before <= AS_REDIS_REFERENCES);
}

// Is there an object at `at`, with its key behind it, or also its value?
static unsigned keyed(const struct bytes *b, uint64_t at)
{
    struct text key, value;
    unsigned encoding = b->known[at] >> 4, kind = 0, size = b->known[at + OBJECT];
    while (kind < AS_SDS_KINDS && as_sds_header(kind) != size)
        kind++;
    if (kind == AS_SDS_KINDS || !accept_string(b, at + OBJECT + 1, kind, &key) || !key.full || key.flags != 0)
        return 0;
    if (encoding == AS_REDIS_EMBEDDED)
        return ends_with_value(b, key.end, &value) &&
                       as_redis_number(b->known + at + WORD, WORD) == b->address + value.start
                   ? AS_REDIS_KEYED
                   : 0;
    if (!as_redis_made_for(b->usable, key.end))
        return 0;
    unsigned before = (unsigned)(at / WORD), what = b->known[at];
    unsigned leads = what == 0 ? AS_REDIS_RAW : what == SET ? AS_REDIS_NUMBERS : 0;
    return AS_REDIS_KEYED | (leads != 0 && before <= AS_REDIS_MOST_BEFORE ? leads | before << AS_REDIS_BEFORE : 0);
}

static unsigned find_keyed(const struct bytes *b)
{
    for (unsigned i = 0; i <= NUMBERS && i * WORD + OBJECT < b->count; i++)
        if (is_head(as_redis_number(b->known + i * WORD, WORD), i))
            return keyed(b, i * WORD);
    return 0;
}

// The field of a hash with its value, or with a pointer to the value; before them may be when the field ends.
static bool is_field(const struct bytes *b)
{
    struct text field, value;
    for (unsigned has = 0; has <= (HAS_TIME | HAS_POINTER); has++)
        for (unsigned kind = has == 0 ? 0 : 1; kind < AS_SDS_KINDS; kind++) {
            uint64_t at = (has & HAS_TIME ? TIME : 0) + (has & HAS_POINTER ? WORD : 0);
            if (accept_string(b, at, kind, &field) && field.full && field.flags == has &&
                (has & HAS_POINTER ? as_redis_made_for(b->usable, field.end) : ends_with_value(b, field.end, &value)))
                return true;
        }
    return false;
}

// An element of a sorted set, with its text behind its levels.
static bool is_node(const struct bytes *b)
{
    struct text text;
    uint64_t about = b->count < ABOUT + WORD ? 0 : as_redis_number(b->known + ABOUT, WORD);
    uint64_t levels = about >> 16 & 0xff, at = NODE + levels * LEVEL;
    if (levels == 0 || levels > LEVELS)
        return false;
    for (unsigned kind = 0; kind < AS_SDS_KINDS; kind++)
        if ((about & 0xffff) == at + as_sds_header(kind))
            return accept_string(b, at, kind, &text) && text.full && text.flags == 0 &&
                   as_redis_made_for(b->usable, text.end);
    return false;
}

unsigned as_redis_keyed_match(struct as_target *t, uint64_t address, uint64_t usable, const uint8_t *bytes,
                              uint64_t count)
{
    const struct bytes b = {t, address, usable, bytes, count};
    return find_keyed(&b) | (is_field(&b) ? AS_REDIS_FIELD : 0u) | (is_node(&b) ? AS_REDIS_NODE : 0u);
}
