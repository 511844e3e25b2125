// SPDX-License-Identifier: MIT
// Is a block an object? If it has, behind the head that the type asks for, a reference count and the address of a proven type.
#include "runtimes/cpython_count.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    HEADS = 3, // 0, PyGC_Head, and PyGC_Head with two words before it
};
static const uint64_t DEBUG_BYTES = UINT64_C(0xfdfdfdfdfdfdfd); // PYMEM_FORBIDDENBYTE, 3.8 on

// The word at `offset` of a block. A core's memory is read where it lies, at any alignment.
static uint64_t word_at(const uint8_t *block, size_t offset)
{
    uint64_t word;
    memcpy(&word, block + offset, sizeof word);
    return word;
}

// Could this word be ob_refcnt? 32 bits of it count; from 3.14 on the uppermost 16 are flags. No address seems so, but that of
// something in the lowest 4 GiB.
static bool is_refcount(uint64_t word)
{
    return (uint32_t)word != 0 && (uint16_t)(word >> 32) == 0;
}

// Is a word that could be a reference count rather the address of an object? Then the block is an array of such.
static bool is_object_address(struct as_py_count *c, uint64_t word)
{
    uint64_t object[2];
    return word >= c->lowest && word % sizeof word == 0 && as_target_mapping_at(c->target, word) &&
           as_target_read(c->target, word, object, sizeof object) &&
           as_py_type_at(&c->types, object[1]) != AS_PY_NO_TYPE;
}

// Is there an object that its type puts behind a head, but that has none? A class is collected only if it is of the heap (its type says so
// by tp_is_gc), and a static one may lie in memory that its module has allocated, as numpy's classes of dtypes do.
static bool is_static_class(struct as_py_count *c, uint64_t address, const struct as_py_type_entry *type)
{
    // The table of types may move.
    bool of_classes = type->flags & AS_PY_TYPE_SUBCLASS;
    uint32_t index = of_classes ? as_py_type_at(&c->types, address) : AS_PY_NO_TYPE;
    return index != AS_PY_NO_TYPE && !(c->types.entries.items[index].flags & AS_PY_HEAP_TYPE);
}

// The type of the object that a block has behind the head of `*head` bytes, and that head; AS_PY_NO_TYPE: there is none.
static uint32_t object_in(struct as_py_count *c, const uint8_t *block, uint64_t address, uint64_t size, uint32_t *head)
{
    for (*head = 0; *head < HEADS * AS_PY_GC_HEAD && *head + 2 * WORD <= size; *head += AS_PY_GC_HEAD) {
        uint64_t refcount = word_at(block, *head), of = word_at(block, *head + WORD);
        if (!is_refcount(refcount) || of >> AS_PY_ADDRESS_BITS != 0)
            continue;
        uint32_t index = as_py_type_at(&c->types, of);
        if (index == AS_PY_NO_TYPE)
            continue;
        const struct as_py_type_entry *type = &c->types.entries.items[index];
        bool fits = type->least_size <= size - *head;
        if (fits && *head == 0 && type->head != 0 && is_static_class(c, address, type))
            return index;
        if (fits && c->types.entries.items[index].head == *head && !is_object_address(c, refcount))
            return index;
    }
    return AS_PY_NO_TYPE;
}

// Takes note that an object of a type says `address` to be its own memory, of which `used` bytes are in use (0: not known).
static bool add_owned(struct as_py_count *c, uint64_t address, uint64_t used, uint32_t type)
{
    if (address == 0 || address >> AS_PY_ADDRESS_BITS != 0)
        return true;
    if (c->visitor)
        return c->visitor->memory(
            c->visitor->context,
            &(struct as_visited_memory){.address = address,
                                        .used = used,
                                        .type = type,
                                        .begins = c->types.entries.items[type].owns == AS_PY_OWNS_DATA});
    if (c->owned.count == c->owned.capacity && !as_vec_reserve(&c->owned, 1, c->err))
        return false;
    c->owned.items[c->owned.count++] = address >> AS_PY_GRANULE_BITS << AS_PY_TYPE_BITS | type;
    return true;
}

// What an object owns, by the pointers in the part of its block that has been read.
static bool follow_object(struct as_py_count *c, const uint8_t *block, uint64_t size, uint32_t head, uint32_t index)
{
    static const uint32_t place[] = {
        [AS_PY_OWNS_ITEMS] = AS_PY_LIST_ITEMS, [AS_PY_OWNS_KEYS] = AS_PY_DICT_KEYS,
        [AS_PY_OWNS_TABLE] = AS_PY_SET_TABLE,  [AS_PY_OWNS_BYTES] = AS_PY_BYTEARRAY,
        [AS_PY_OWNS_DATA] = AS_PY_ARRAY_DATA,
    };
    // Up to 3.12 one of the words before the object leads to the values of its attributes; 3.12 has its lowest bit set.
    for (uint32_t at = 0; at + AS_PY_GC_HEAD < head; at += WORD) {
        uint64_t word = word_at(block, at);
        if (!add_owned(c, word & 1 ? word + 1 : word, 0, index))
            return false;
    }
    uint32_t owns = c->types.entries.items[index].owns;
    if (owns == AS_PY_OWNS_NOTHING || head + place[owns] + 2 * WORD > size)
        return true;
    if (owns == AS_PY_OWNS_DATA && !(word_at(block, head + AS_PY_ARRAY_FLAGS) & AS_PY_ARRAY_OWNS))
        return true;
    uint64_t values = owns == AS_PY_OWNS_KEYS ? word_at(block, head + AS_PY_DICT_VALUES) : 0;
    uint64_t items = owns == AS_PY_OWNS_ITEMS ? word_at(block, head + AS_PY_SIZE) : 0;
    uint64_t used = items < SIZE_MAX / WORD ? items * WORD : 0;
    return add_owned(c, values ? values : word_at(block, head + place[owns]), used, index);
}

// How many bytes an object has; 0: not known. A subclass of tuple may have more behind its items.
static uint64_t size_of(const struct as_py_type_entry *type, const uint8_t *object)
{
    if (type->item_size == 0)
        return type->flags & AS_PY_INLINE_VALUES ? 0 : type->least_size;
    bool tuple = type->flags & AS_PY_TUPLE_SUBCLASS && !(type->flags & AS_PY_HEAP_TYPE) && type->item_size == WORD;
    uint64_t items = word_at(object, AS_PY_SIZE);
    return tuple && items < UINT32_MAX ? type->least_size + items * WORD : 0;
}

bool as_py_count_block(struct as_py_count *c, const uint8_t *block, uint64_t address, uint64_t size, bool mallocs,
                       struct as_py_found *found)
{
    // With PYTHONMALLOC=debug the block's size, a letter and these bytes stand first; in chunks of malloc twice.
    uint32_t prefix = 0;
    while (prefix < 2 * AS_PY_DEBUG_PREFIX && word_at(block, prefix + WORD) >> 8 == DEBUG_BYTES)
        prefix += AS_PY_DEBUG_PREFIX;
    uint32_t head;
    // The owner of a chunk may use the first word behind it, too.
    uint64_t room = size - prefix + (mallocs ? WORD : 0);
    uint32_t index = object_in(c, block + prefix, address + prefix, room, &head);
    *found = (struct as_py_found){.type = index, .head = prefix + head};
    if (index == AS_PY_NO_TYPE)
        return !c->types.failed || as_fail(c->err, AS_NO_MEMORY, "no memory for the table of types");
    const struct as_py_type_entry *type = &c->types.entries.items[index];
    uint64_t object = size_of(type, block + prefix + head);
    found->used = object > 0 && type->refers != AS_PY_REFERS_LOOSELY ? prefix + head + object : 0;
    struct as_type_record *counts = &c->types.entries.items[index].counts;
    counts->count++;
    *(mallocs ? &counts->malloc_bytes : &counts->bytes) += size;
    if (head > 0) {
        c->gc_objects++;
        counts->tracked += word_at(block, prefix + head - AS_PY_GC_HEAD) != 0;
        if (c->visitor && c->collector == AS_PY_COLLECTOR_UNKNOWN)
            as_py_collector_try(c, word_at(block, prefix + head - AS_PY_GC_HEAD + WORD));
    }
    return follow_object(c, block + prefix, room, head, index);
}
