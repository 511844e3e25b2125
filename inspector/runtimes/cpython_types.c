// SPDX-License-Identifier: MIT
#include "runtimes/cpython_types.h"

#include "runtimes/cpython_layout.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_SLOTS = 4096,
    DEEPEST = 16,  // of a type's type, and of its base's base
    LONGEST = 256, // of a name
};
static const uint64_t LARGEST_OBJECT = UINT64_C(1) << 32; // tp_basicsize, bytes

static size_t slot_for(const struct as_py_types *types, uint64_t address)
{
    size_t mask = types->slots.count - 1;
    size_t at = (size_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
    while (types->slots.items[at].address != 0 && types->slots.items[at].address != address)
        at = (at + 1) & mask;
    return at;
}

// Makes room for another address.
static bool grow(struct as_py_types *types)
{
    if (types->used * 2 < types->slots.count)
        return true;
    struct as_py_types larger = {.err = types->err};
    size_t count = types->slots.count ? types->slots.count * 2 : FIRST_SLOTS;
    if (!as_vec_reserve(&larger.slots, count, types->err))
        return false;
    larger.slots.count = count;
    for (size_t i = 0; i < types->slots.count; i++)
        if (types->slots.items[i].address != 0)
            larger.slots.items[slot_for(&larger, types->slots.items[i].address)] = types->slots.items[i];
    as_vec_free(&types->slots);
    types->slots.items = larger.slots.items;
    types->slots.count = larger.slots.count;
    types->slots.capacity = larger.slots.capacity;
    return true;
}

// Reads up to `length` bytes of what nobody writes: a core leaves out what is in a file as well, and the file has it then.
static size_t read_constant(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    size_t got = t->ops->memory.read(t, address, buffer, length);
    const struct as_mapping *m = got == 0 ? as_target_mapping_at(t, address) : NULL;
    if (!m || t->kind != AS_TARGET_CORE || !as_mapping_of_file(m) || (m->prot & AS_PROT_WRITE))
        return got;
    int fd = t->ops->open_file(t, m, NULL);
    if (fd < 0)
        return 0;
    size_t most = m->end - address < length ? (size_t)(m->end - address) : length;
    ssize_t n = pread(fd, buffer, most, (off_t)(address - m->start + m->offset));
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

// Reads a C string that could be a name: printable, and not too long.
static bool read_name(struct as_target *t, uint64_t address, char name[LONGEST])
{
    size_t length = read_constant(t, address, name, LONGEST);
    const char *end = memchr(name, 0, length);
    if (!end || end == name)
        return false;
    for (const char *c = name; c < end; c++)
        if ((unsigned char)*c < ' ')
            return false;
    return true;
}

// Is the type's own type one, up to the one that is its own?
static bool is_type(struct as_target *t, uint64_t address, const struct as_py_type *type)
{
    struct as_py_type meta = *type;
    for (int depth = 0; depth < DEEPEST; depth++) {
        char name[LONGEST];
        if (meta.type == address)
            return (meta.flags & AS_PY_TYPE_SUBCLASS) && read_name(t, meta.name, name) && strcmp(name, "type") == 0;
        address = meta.type;
        if (address % sizeof address != 0 || !as_target_read(t, address, &meta, sizeof meta) ||
            !(meta.flags & AS_PY_TYPE_SUBCLASS))
            return false;
    }
    return false;
}

// What objects of a class own, that a static type by one of the names below is the base of.
static uint32_t owns_by_name(struct as_target *t, struct as_py_type type)
{
    for (int depth = 0; depth < DEEPEST; depth++) {
        char name[LONGEST];
        if (!(type.flags & AS_PY_HEAP_TYPE) && read_name(t, type.name, name)) {
            if (strcmp(name, "set") == 0 || strcmp(name, "frozenset") == 0)
                return AS_PY_OWNS_TABLE;
            if (strcmp(name, "bytearray") == 0)
                return AS_PY_OWNS_BYTES;
        }
        if (type.base == 0 || !as_target_read(t, type.base, &type, sizeof type))
            return AS_PY_OWNS_NOTHING;
    }
    return AS_PY_OWNS_NOTHING;
}

static uint32_t owned_by(struct as_target *t, const struct as_py_type *type)
{
    if (type->flags & AS_PY_LIST_SUBCLASS)
        return AS_PY_OWNS_ITEMS;
    if (type->flags & AS_PY_DICT_SUBCLASS)
        return AS_PY_OWNS_KEYS;
    return owns_by_name(t, *type);
}

static uint32_t head_of(const struct as_py_type *type)
{
    uint32_t head = type->flags & AS_PY_HAVE_GC ? AS_PY_GC_HEAD : 0;
    return head + (type->flags & (AS_PY_MANAGED_DICT | AS_PY_MANAGED_WEAKREF) ? AS_PY_PREHEADER : 0);
}

// The name as people write it. Static types have their module in tp_name, those of the language none.
static uint32_t add_name(struct as_py_types *types, const struct as_py_type *type, const char *name)
{
    char module[LONGEST], whole[2 * LONGEST];
    bool bare = strchr(name, '.') || !as_py_module_name(types->target, type, module, sizeof module) ||
                strcmp(module, "builtins") == 0;
    snprintf(whole, sizeof whole, "%s%s%s", bare ? "" : module, bare ? "" : ".", name);
    return as_strings_add(&types->store->strings, whole, sizeof whole);
}

// Reads what may be a type; AS_PY_NO_TYPE: it is none.
static uint32_t read_type(struct as_py_types *types, uint64_t address)
{
    struct as_target *t = types->target;
    struct as_py_type type;
    char name[LONGEST];
    if (!as_target_read(t, address, &type, sizeof type) || type.basic_size < AS_PY_ALIGNMENT ||
        type.basic_size > LARGEST_OBJECT || !is_type(t, address, &type) || !read_name(t, type.name, name))
        return AS_PY_NO_TYPE;
    struct as_py_type_entry *entry = as_vec_add(&types->entries, types->err);
    if (!entry) {
        types->failed = true;
        return AS_PY_NO_TYPE;
    }
    *entry = (struct as_py_type_entry){
        .address = address,
        .least_size = type.flags & AS_PY_UNICODE_SUBCLASS && type.basic_size > AS_PY_LEAST_STR ? AS_PY_LEAST_STR
                                                                                               : type.basic_size,
        .flags = type.flags,
        .name = add_name(types, &type, name),
        .head = head_of(&type),
        .owns = owned_by(t, &type),
    };
    return (uint32_t)(types->entries.count - 1);
}

uint32_t as_py_type_at(struct as_py_types *types, uint64_t address)
{
    if (address == 0 || address % sizeof address != 0 || types->overflow || types->failed)
        return AS_PY_NO_TYPE;
    if (types->slots.count > 0) {
        const struct as_py_slot *slot = &types->slots.items[slot_for(types, address)];
        if (slot->address == address)
            return slot->entry;
    }
    if (!as_target_mapping_at(types->target, address))
        return AS_PY_NO_TYPE;
    types->overflow = types->used >= AS_PY_MOST_TYPES;
    types->failed = !grow(types);
    if (types->overflow || types->failed)
        return AS_PY_NO_TYPE;
    uint32_t entry = read_type(types, address);
    types->slots.items[slot_for(types, address)] = (struct as_py_slot){address, entry};
    types->used++;
    return entry;
}

void as_py_types_free(struct as_py_types *types)
{
    as_vec_free(&types->entries);
    as_vec_free(&types->slots);
}
