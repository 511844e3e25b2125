// SPDX-License-Identifier: MIT
// What a chunk of redis' may be, by its own bytes.
#include "recognisers/redis_bytes.h"

enum {
    OBJECT = 16,         // bytes: type and encoding, when it was used last, reference count, pointer
    LEAST_CHUNK = 24,    // bytes that malloc gives at least
    LISTPACK_HEADER = 6, // bytes: of all, and how many elements there are
    MANY = 0xffff,       // elements of a listpack: they are not counted any more
    END = 0xff,          // behind a listpack's last element
    INTSET_HEADER = 8,
    LEAST_INTSET = 1,
};

// Length and room have the same size; behind them is the kind, which says which.
static bool is_sds(struct as_target *t, uint64_t address, uint64_t usable, const uint8_t *bytes, uint64_t count)
{
    for (size_t kind = 1, size = 1; kind <= 4; kind++, size *= 2) {
        size_t header = 2 * size + 1;
        if (header >= count || bytes[header - 1] != kind)
            continue;
        uint64_t length = as_redis_number(bytes, size), room = as_redis_number(bytes + size, size);
        if (length <= room && room < usable && as_redis_made_for(usable, header + room + 1) &&
            as_redis_zero(t, address, bytes, count, header + length))
            return true;
    }
    return false;
}

static bool is_short(uint64_t usable, const uint8_t *bytes, uint64_t count)
{
    unsigned length = bytes[0] >> 3;
    return (bytes[0] & 7) == 0 && length + 2 <= count && as_redis_made_for(usable, length + 2) &&
           bytes[1 + length] == 0;
}

// A count is the greatest if all its 32 bits but the sign are set; in valkey, if all are that no flags take (8.0 has two flags, 9.0 three),
// and no flag is.
static bool is_greatest(uint64_t references)
{
    return references == INT32_MAX || references == UINT32_MAX - 3 || references == UINT32_MAX - 7;
}

// An object that all share has the greatest reference count that there is, and nobody changes it.
static unsigned object(uint64_t usable, const uint8_t *bytes)
{
    unsigned type = bytes[0] & 0xf, encoding = bytes[0] >> 4;
    uint64_t references = as_redis_number(bytes + 4, 4);
    if (!as_redis_made_for(usable, OBJECT) || type > AS_REDIS_TYPE || encoding > AS_REDIS_ENCODING)
        return 0;
    return is_greatest(references) && type == 0                   ? AS_REDIS_SHARED
           : references != 0 && references <= AS_REDIS_REFERENCES ? AS_REDIS_OBJECT
                                                                  : 0;
}

// Since 8.6: references come first, and when it was used last is behind them. No number is before an object without a key.
static unsigned late_object(uint64_t usable, const uint8_t *bytes)
{
    enum { GREATEST = 0x7fffff };
    uint64_t head = as_redis_number(bytes, sizeof head), references = head >> 8 & 0xffffff;
    unsigned type = head & 0xf, encoding = head >> 4 & 0xf;
    if (!as_redis_made_for(usable, OBJECT) || type > AS_REDIS_TYPE || encoding > AS_REDIS_ENCODING)
        return 0;
    if (references == GREATEST && head >> 32 == 0 && type == 0 && encoding <= 1)
        return encoding == 0 ? AS_REDIS_SHARED | AS_REDIS_RAW : AS_REDIS_SHARED;
    return references != 0 && references <= AS_REDIS_REFERENCES && (head >> 32 & 0xff) == 0 ? AS_REDIS_OBJECT : 0;
}

// Its string has lengths of one byte each.
static bool is_text(uint64_t address, uint64_t usable, const uint8_t *bytes, uint64_t count)
{
    const uint8_t *sds = bytes + OBJECT;
    return bytes[0] == AS_REDIS_EMBEDDED << 4 && count > OBJECT + 3 &&
           as_redis_number(bytes + 8, 8) == address + OBJECT + 3 && sds[2] == 1 && sds[0] <= sds[1] &&
           as_redis_made_for(usable, OBJECT + 3 + (uint64_t)sds[1] + 1) && OBJECT + 3 + (uint64_t)sds[0] < count &&
           sds[3 + sds[0]] == 0;
}

// At `at` is how many bytes the header of a string takes; the string follows.
static bool has_key(const uint8_t *bytes, uint64_t count, uint64_t at)
{
    uint64_t size = at < count ? bytes[at] : 0, text = at + 1 + size;
    unsigned kind = size > 0 && text < count ? bytes[text - 1] & 7 : AS_SDS_KINDS;
    if (kind >= AS_SDS_KINDS || as_sds_header(kind) != size)
        return false;
    uint64_t length = kind == 0 ? bytes[at + 1] >> 3 : as_redis_number(bytes + at + 1, (size_t)1 << (kind - 1));
    return length < count - text && bytes[text + length] == 0;
}

// Flags are before the reference count: a time is behind the object, then a key; and (since 9.0) the value instead of a pointer to it.
static bool is_keyed(const uint8_t *bytes, uint64_t count)
{
    uint64_t word = as_redis_number(bytes + 4, 4), time = word & 1 ? sizeof(uint64_t) : 0;
    uint64_t pointer = word & 4 ? 0 : sizeof(uint64_t);
    if ((bytes[0] & 0xf) > AS_REDIS_TYPE || bytes[0] >> 4 > AS_REDIS_ENCODING || (word & 2) == 0)
        return false;
    return (word >> 3 != 0 && word >> 3 <= AS_REDIS_REFERENCES &&
            has_key(bytes, count, sizeof(uint64_t) + pointer + time)) ||
           (word >> 2 != 0 && word >> 2 <= AS_REDIS_REFERENCES && has_key(bytes, count, OBJECT + time));
}

// The bytes of an element without its own length behind it; 0: it is none. `left`: bytes up to the listpack's last.
static uint64_t element(const uint8_t *at, uint64_t left)
{
    static const uint8_t numbers[] = {0, 3, 4, 5, 9}; // of 16, 24, 32 and 64 bits
    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xc0)
        return 1 + (uint64_t)(at[0] & 0x3f);
    if (at[0] < 0xe0)
        return 2;
    if (at[0] < 0xf0)
        return left < 2 ? 0 : 2 + ((uint64_t)(at[0] & 0xf) << 8 | at[1]);
    if (at[0] == 0xf0)
        return left < 5 ? 0 : 5 + as_redis_number(at + 1, 4);
    return at[0] - 0xf0u < sizeof numbers ? numbers[at[0] - 0xf0] : 0;
}

// Behind each element is its length, seven bits a byte, the highest first; all but the first have a bit more.
static uint64_t behind(const uint8_t *at, uint64_t length, uint64_t left)
{
    uint64_t size = 1;
    while (size < 5 && length >> 7 * size != 0)
        size++;
    if (size > left)
        return 0;
    for (uint64_t i = 0; i < size; i++)
        if (at[i] != ((length >> 7 * (size - 1 - i) & 0x7f) | (i > 0 ? 0x80 : 0)))
            return 0;
    return size;
}

static bool is_listpack(uint64_t usable, const uint8_t *bytes, uint64_t count)
{
    uint64_t total = as_redis_number(bytes, 4), said = as_redis_number(bytes + 4, 2), found = 0, at = LISTPACK_HEADER;
    if (total <= LISTPACK_HEADER || total > count || !as_redis_made_for(usable, total) || bytes[total - 1] != END)
        return false;
    for (; at + 1 < total && bytes[at] != END; found++) {
        uint64_t left = total - 1 - at, length = element(bytes + at, left);
        if (length == 0 || length >= left)
            return false;
        uint64_t size = behind(bytes + at + length, length, left - length);
        if (size == 0)
            return false;
        at += length + size;
    }
    return at + 1 == total && (found == said || said == MANY);
}

// Sorted numbers of 2, 4 or 8 bytes, with their size and how many there are before.
static bool is_intset(uint64_t usable, const uint8_t *bytes, uint64_t count)
{
    uint64_t size = as_redis_number(bytes, 4), numbers = as_redis_number(bytes + 4, 4);
    if ((size != 2 && size != 4 && size != 8) || numbers < LEAST_INTSET || numbers > count ||
        INTSET_HEADER + size * numbers > count || !as_redis_made_for(usable, INTSET_HEADER + size * numbers))
        return false;
    int64_t before = INT64_MIN;
    for (uint64_t i = 0; i < numbers; i++) {
        unsigned shift = 64 - 8 * (unsigned)size;
        int64_t each = (int64_t)(as_redis_number(bytes + INTSET_HEADER + i * size, size) << shift) >> shift;
        if (i > 0 && each <= before)
            return false;
        before = each;
    }
    return true;
}

unsigned as_redis_match(struct as_target *t, uint64_t address, uint64_t usable, const uint8_t *bytes, uint64_t count,
                        bool modern)
{
    if (count < LEAST_CHUNK)
        return 0;
    unsigned late = modern ? late_object(usable, bytes) | as_redis_keyed_match(t, address, usable, bytes, count) : 0;
    return late | (is_short(usable, bytes, count) ? AS_SDS_SHORT : 0u) |
           (is_sds(t, address, usable, bytes, count) ? AS_SDS_LONG : 0u) | object(usable, bytes) |
           (is_text(address, usable, bytes, count) ? AS_REDIS_TEXT : 0u) |
           (is_listpack(usable, bytes, count) ? AS_REDIS_LISTPACK : 0u) |
           (is_intset(usable, bytes, count) ? AS_REDIS_INTSET : 0u) | (is_keyed(bytes, count) ? AS_VALKEY_OBJECT : 0u);
}
