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
    LONGEST_WHOLE = 2 * LONGEST,
    MOST_BEFORE = 96, // bytes of a chunk before a class
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

// The slot that an address has, or NULL.
static struct as_py_slot *slot_of(const struct as_py_types *types, uint64_t address)
{
    if (types->slots.count == 0)
        return NULL;
    struct as_py_slot *slot = &types->slots.items[slot_for(types, address)];
    return slot->address == address ? slot : NULL;
}

// Makes room for another address.
static bool grow_types(struct as_py_types *types)
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

// The file of a mapping, which is opened once: of a core, the names of all static types are read there. -1: it cannot be had. Of very many
// files the one that was opened first makes room.
static int file_of(struct as_py_types *types, const struct as_mapping *m)
{
    struct as_target *t = types->target;
    unsigned known = types->opened < AS_PY_MOST_FILES ? types->opened : AS_PY_MOST_FILES;
    for (unsigned i = 0; i < known; i++)
        if (strcmp(as_strings_at(&t->strings, types->files[i].path), as_strings_at(&t->strings, m->path)) == 0)
            return types->files[i].fd;
    struct as_py_file *file = &types->files[types->opened % AS_PY_MOST_FILES];
    if (types->opened >= AS_PY_MOST_FILES && file->fd >= 0)
        close(file->fd);
    types->opened++;
    *file = (struct as_py_file){m->path, t->ops->open_file(t, m, NULL)};
    return file->fd;
}

// Reads up to `length` bytes of what nobody writes: a core leaves out what is in a file as well, and the file has it then.
static size_t read_constant(struct as_py_types *types, uint64_t address, void *buffer, size_t length)
{
    struct as_target *t = types->target;
    size_t got = as_target_read_resident(t, address, buffer, length);
    const struct as_mapping *m = got < length ? as_target_mapping_at(t, address + got) : NULL;
    if (!m || t->kind != AS_TARGET_CORE || !as_mapping_of_file(m) || (m->prot & AS_PROT_WRITE))
        return got;
    int fd = file_of(types, m);
    if (fd < 0)
        return got;
    size_t most = m->end - address < length ? (size_t)(m->end - address) : length;
    ssize_t more = 1;
    for (; got < most && more > 0; got += more > 0 ? (size_t)more : 0)
        more = pread(fd, (char *)buffer + got, most - got, (off_t)(address + got - m->start + m->offset));
    return got;
}

// Reads a C string that could be a name: printable, and not too long.
static bool read_name(struct as_py_types *types, uint64_t address, char name[LONGEST])
{
    size_t length = read_constant(types, address, name, LONGEST);
    const char *end = memchr(name, 0, length);
    if (!end || end == name)
        return false;
    for (const char *c = name; c < end; c++)
        if ((unsigned char)*c < ' ')
            return false;
    return true;
}

// Is the type's own type one, up to the one that is its own?
static bool is_type(struct as_py_types *types, uint64_t address, const struct as_py_type *type)
{
    struct as_target *t = types->target;
    struct as_py_type meta = *type;
    for (int depth = 0; depth < DEEPEST; depth++) {
        char name[LONGEST];
        if (meta.type == address)
            return (meta.flags & AS_PY_TYPE_SUBCLASS) && read_name(types, meta.name, name) && strcmp(name, "type") == 0;
        address = meta.type;
        if (address % sizeof address != 0 || !as_target_read(t, address, &meta, sizeof meta) ||
            !(meta.flags & AS_PY_TYPE_SUBCLASS))
            return false;
    }
    return false;
}

// What objects have of their own, and how they refer to others, whose class a static type of a name is, or is a base of.
struct base_facts {
    const char *name;
    enum as_py_owns owns;
    enum as_py_refers refers;
};

static struct base_facts facts_by_name(struct as_py_types *types, struct as_py_type type)
{
    static const struct base_facts facts[] = {
        {"set", AS_PY_OWNS_TABLE, AS_PY_REFERS},
        {"frozenset", AS_PY_OWNS_TABLE, AS_PY_REFERS},
        {"bytearray", AS_PY_OWNS_BYTES, AS_PY_REFERS},
        {"numpy.ndarray", AS_PY_OWNS_DATA, AS_PY_REFERS},
        {"weakref", AS_PY_OWNS_NOTHING, AS_PY_REFERS_WEAKLY}, // up to 3.9
        {"weakproxy", AS_PY_OWNS_NOTHING, AS_PY_REFERS_WEAKLY},
        {"weakcallableproxy", AS_PY_OWNS_NOTHING, AS_PY_REFERS_WEAKLY},
        {"weakref.ReferenceType", AS_PY_OWNS_NOTHING, AS_PY_REFERS_WEAKLY},
        {"weakref.ProxyType", AS_PY_OWNS_NOTHING, AS_PY_REFERS_WEAKLY},
        {"weakref.CallableProxyType", AS_PY_OWNS_NOTHING, AS_PY_REFERS_WEAKLY},
        {"frame", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
        {"generator", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
        {"coroutine", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
        {"async_generator", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
        {"str", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
        {"bytes", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
        {"int", AS_PY_OWNS_NOTHING, AS_PY_REFERS_LOOSELY},
    };
    for (int depth = 0; depth < DEEPEST; depth++) {
        char name[LONGEST];
        if (!(type.flags & AS_PY_HEAP_TYPE) && read_name(types, type.name, name))
            for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
                if (strcmp(name, facts[i].name) == 0)
                    return facts[i];
        if (type.base == 0 || !as_target_read(types->target, type.base, &type, sizeof type))
            break;
    }
    return (struct base_facts){NULL, AS_PY_OWNS_NOTHING, AS_PY_REFERS};
}

static uint32_t owned_by(const struct base_facts *base, const struct as_py_type *type)
{
    return type->flags & AS_PY_LIST_SUBCLASS   ? AS_PY_OWNS_ITEMS
           : type->flags & AS_PY_DICT_SUBCLASS ? AS_PY_OWNS_KEYS
                                               : base->owns;
}

static uint32_t head_of(const struct as_py_type *type)
{
    uint32_t head = type->flags & AS_PY_HAVE_GC ? AS_PY_GC_HEAD : 0;
    return head + (type->flags & (AS_PY_MANAGED_DICT | AS_PY_MANAGED_WEAKREF) ? AS_PY_PREHEADER : 0);
}

// The name as people write it. Static types have their module in tp_name, those of the language none.
static uint32_t add_name(struct as_py_types *types, const struct as_py_type *type, const char *name)
{
    char module[LONGEST], whole[LONGEST_WHOLE];
    bool bare = strchr(name, '.') || !as_py_module_name(types->target, type, module, sizeof module) ||
                strcmp(module, "builtins") == 0;
    snprintf(whole, sizeof whole, "%s%s%s", bare ? "" : module, bare ? "" : ".", name);
    return as_strings_add(&types->names, whole, sizeof whole);
}

// Reads what may be a type; AS_PY_NO_TYPE: it is none.
static uint32_t read_type(struct as_py_types *types, uint64_t address)
{
    struct as_target *t = types->target;
    struct as_py_type type;
    char name[LONGEST];
    if (!as_target_read(t, address, &type, sizeof type) || type.basic_size < AS_PY_ALIGNMENT ||
        type.basic_size > LARGEST_OBJECT || !is_type(types, address, &type) || !read_name(types, type.name, name))
        return AS_PY_NO_TYPE;
    struct as_py_type_entry *entry = as_vec_add(&types->entries, types->err);
    if (!entry) {
        types->failed = true;
        return AS_PY_NO_TYPE;
    }
    const struct base_facts base = facts_by_name(types, type);
    *entry = (struct as_py_type_entry){
        .address = address,
        .least_size = type.flags & AS_PY_UNICODE_SUBCLASS && type.basic_size > AS_PY_LEAST_STR ? AS_PY_LEAST_STR
                                                                                               : type.basic_size,
        .item_size = type.item_size,
        .flags = type.flags,
        .name = add_name(types, &type, name),
        .head = head_of(&type),
        .owns = owned_by(&base, &type),
        .refers = base.refers,
    };
    return (uint32_t)(types->entries.count - 1);
}

// The slot of an address that has none yet, or NULL: there are more than a Python has, or memory ran out.
static struct as_py_slot *add_slot(struct as_py_types *types, uint64_t address)
{
    types->overflow |= types->used >= AS_PY_MOST_TYPES;
    types->failed |= !types->overflow && !grow_types(types);
    if (types->overflow || types->failed)
        return NULL;
    struct as_py_slot *slot = &types->slots.items[slot_for(types, address)];
    *slot = (struct as_py_slot){address, AS_PY_NO_TYPE};
    types->used++;
    return slot;
}

// May a class lie at an address in mapping `m`? In a chunk it begins behind the chunk's header, marks of the debug hooks, and its own head.
static bool has_room(const struct as_py_types *types, const struct as_mapping *m, uint64_t address)
{
    size_t behind = AS_PARTITION_POINT(0, types->chunk_count, i, types->chunks[i] <= address);
    uint64_t chunk = behind > 0 ? types->chunks[behind - 1] : 0;
    if (chunk < m->start)
        return true; // no chunk is known there
    uint64_t end = behind < types->chunk_count ? types->chunks[behind] : UINT64_MAX;
    return address - chunk <= MOST_BEFORE && end - address >= sizeof(struct as_py_type);
}

uint32_t as_py_type_find(struct as_py_types *types, uint64_t address)
{
    if (address == 0 || address % sizeof address != 0 || types->overflow || types->failed)
        return AS_PY_NO_TYPE;
    const struct as_py_slot *known = slot_of(types, address);
    if (known)
        return known->entry;
    const struct as_mapping *m = as_target_mapping_at(types->target, address);
    if (!m || !has_room(types, m, address))
        return AS_PY_NO_TYPE;
    struct as_py_slot *slot = add_slot(types, address);
    return slot ? slot->entry = read_type(types, address) : AS_PY_NO_TYPE;
}

static void add_counts(struct as_type_record *to, const struct as_type_record *from)
{
    to->count += from->count;
    to->tracked += from->tracked;
    to->bytes += from->bytes;
    to->malloc_bytes += from->malloc_bytes;
    to->owned_bytes += from->owned_bytes;
    to->owned_malloc_bytes += from->owned_malloc_bytes;
}

uint32_t as_py_type_join(struct as_py_types *types, const struct as_py_types *other, uint32_t entry)
{
    const struct as_py_type_entry *from = &other->entries.items[entry];
    struct as_py_slot *slot = slot_of(types, from->address);
    slot = slot ? slot : add_slot(types, from->address);
    if (!slot)
        return AS_PY_NO_TYPE;
    if (slot->entry != AS_PY_NO_TYPE) {
        add_counts(&types->entries.items[slot->entry].counts, &from->counts);
        return slot->entry;
    }
    struct as_py_type_entry *to = as_vec_add(&types->entries, types->err);
    types->failed |= !to;
    if (!to)
        return AS_PY_NO_TYPE;
    *to = *from;
    to->name = as_strings_add(&types->names, as_strings_at(&other->names, from->name), LONGEST_WHOLE);
    return slot->entry = (uint32_t)(types->entries.count - 1);
}

void as_py_types_free(struct as_py_types *types)
{
    AS_FREE_VECS(types, entries, slots, names);
    for (unsigned i = 0; i < types->opened && i < AS_PY_MOST_FILES; i++)
        if (types->files[i].fd >= 0)
            close(types->files[i].fd);
    types->opened = 0;
}
