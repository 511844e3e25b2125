// SPDX-License-Identifier: MIT
// The name of a class with its module. A class of a program has the module's name in its own dict, under "__module__"; the dict's
// keys are laid out in one way up to 3.10, and in another from 3.11 on (Objects/dict-common.h, pycore_dict.h).
#include "runtimes/cpython_layout.h"
#include "runtimes/cpython_types.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_ENTRIES = 256, // of a class's dict that are inspected: "__module__" is usually the first
    GENERAL = 0,        // dk_kind: an entry is a hash, a key and a value
    ALL_STR = 1,        // a key and a value
    OLD_HEADER = 40,    // of PyDictKeysObject up to 3.10
    NEW_HEADER = 32,
    LENGTH = 16,   // of a str: its length
    NEW_TEXT = 40, // where its characters stand from 3.12 on
    OLD_TEXT = 48, // and before
    LONGEST = 128, // of a module's name
};

// Where a dict's entries are.
struct entries {
    uint64_t address, count;
    uint32_t size, key; // bytes of an entry; where in it the key stands
};

// The entries behind a dict's keys.
static bool find_entries(struct as_target *t, uint64_t keys, struct entries *e)
{
    uint64_t header[5];
    if (!as_target_read(t, keys, header, sizeof header))
        return false;
    uint64_t size = header[1];
    if (size != 0 && (size & (size - 1)) == 0) { // up to 3.10 dk_size; later two bytes that are not 0
        uint64_t index = size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : 4;
        *e = (struct entries){keys + OLD_HEADER + size * index, header[4], 3 * sizeof size, sizeof size};
        return size <= UINT32_MAX;
    }
    unsigned index_bits = size >> 8 & 0xff, kind = size >> 16 & 0xff;
    uint64_t address = keys + NEW_HEADER + (UINT64_C(1) << (index_bits & 31));
    if (kind == GENERAL)
        *e = (struct entries){address, header[3], 3 * sizeof size, sizeof size};
    else
        *e = (struct entries){address, header[3], 2 * sizeof size, 0};
    return kind <= ALL_STR;
}

// Reads the ASCII text of a str at `offset`. False: there is none.
static bool read_text(struct as_target *t, uint64_t str, uint32_t offset, char text[LONGEST])
{
    uint64_t length;
    if (!as_target_read(t, str + LENGTH, &length, sizeof length) || length == 0 || length >= LONGEST ||
        !as_target_read(t, str + offset, text, length + 1) || text[length] != 0 || strlen(text) != length)
        return false;
    for (uint64_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}

bool as_py_module_name(struct as_target *t, const struct as_py_type *type, char *name, size_t size)
{
    uint64_t keys;
    struct entries e;
    if (!(type->flags & AS_PY_HEAP_TYPE) || type->dict == 0 ||
        !as_target_read(t, type->dict + AS_PY_DICT_KEYS, &keys, sizeof keys) || !find_entries(t, keys, &e))
        return false;
    for (uint64_t i = 0; i < e.count && i < MOST_ENTRIES; i++) {
        static const uint32_t offsets[] = {NEW_TEXT, OLD_TEXT};
        uint64_t pair[2];
        char text[LONGEST];
        if (!as_target_read(t, e.address + i * e.size + e.key, pair, sizeof pair))
            return false;
        for (int k = 0; k < 2 && pair[0] != 0; k++)
            if (read_text(t, pair[0], offsets[k], text) && strcmp(text, "__module__") == 0 &&
                read_text(t, pair[1], offsets[k], text))
                return snprintf(name, size, "%s", text) < (int)size;
    }
    return false;
}
