// SPDX-License-Identifier: MIT
// The table gHotSpotVMStructs. Where it is, how long an element is and where the fields of an element are, libjvm.so exports as
// variables: so it is read the same in every release. (src/hotspot/share/runtime/vmStructs.hpp; read in 11 to 25.)
#include "runtimes/hotspot.h"

#include <string.h>

enum {
    MOST_ENTRIES = 8192, // in the table; 17 has 788
    MOST_STRIDE = 256,   // bytes of an element
    NAME = 64,
};

// A row of the table that is wanted. Names differ between releases: of several with the same place one is enough.
static const struct wanted_entry {
    enum as_hotspot_field place;
    char type[21], field[16]; // without pointers, which would be relocations, for the agent's sake
} wanted[] = {
    {AS_HOTSPOT_collected_heap, "Universe", "_collectedHeap"},
    {AS_HOTSPOT_heap_reserved, "CollectedHeap", "_reserved"},
    {AS_HOTSPOT_region_start, "MemRegion", "_start"},
    {AS_HOTSPOT_region_words, "MemRegion", "_word_size"},
    {AS_HOTSPOT_code_heaps, "CodeCache", "_heaps"},
    {AS_HOTSPOT_code_memory, "CodeHeap", "_memory"},
    {AS_HOTSPOT_code_map, "CodeHeap", "_segmap"},
    {AS_HOTSPOT_array_length, "GrowableArrayBase", "_len"},
    {AS_HOTSPOT_array_length, "GenericGrowableArray", "_len"}, // up to 15
    {AS_HOTSPOT_array_data, "GrowableArray<int>", "_data"},
    {AS_HOTSPOT_low_boundary, "VirtualSpace", "_low_boundary"},
    {AS_HOTSPOT_high_boundary, "VirtualSpace", "_high_boundary"},
    {AS_HOTSPOT_low, "VirtualSpace", "_low"},
    {AS_HOTSPOT_high, "VirtualSpace", "_high"},
    {AS_HOTSPOT_counters_start, "PerfMemory", "_start"},
    {AS_HOTSPOT_counters_end, "PerfMemory", "_end"},
    {AS_HOTSPOT_release, "Abstract_VM_Version", "_s_vm_release"},
};
enum { WANTED = sizeof wanted / sizeof *wanted };

// Where an element has what.
struct table_shape {
    uint64_t stride, type_name, field_name, is_static, offset, address;
};

// Reads an exported variable of HotSpot's.
static bool read_exported(const struct as_runtime_object *o, const char *name, uint64_t *value)
{
    uint64_t address = as_runtime_symbol(o, name);
    return address && as_target_read_u64(o->modules.target, address, value);
}

static bool read_shape(const struct as_runtime_object *o, struct table_shape *s)
{
    struct {
        const char *name;
        uint64_t *value;
        size_t size;
    } parts[] = {
        {"gHotSpotVMStructEntryTypeNameOffset", &s->type_name, sizeof(uint64_t)},
        {"gHotSpotVMStructEntryFieldNameOffset", &s->field_name, sizeof(uint64_t)},
        {"gHotSpotVMStructEntryIsStaticOffset", &s->is_static, sizeof(uint32_t)},
        {"gHotSpotVMStructEntryOffsetOffset", &s->offset, sizeof(uint64_t)},
        {"gHotSpotVMStructEntryAddressOffset", &s->address, sizeof(uint64_t)},
    };
    if (!read_exported(o, "gHotSpotVMStructEntryArrayStride", &s->stride) || s->stride == 0 || s->stride > MOST_STRIDE)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!read_exported(o, parts[i].name, parts[i].value) || *parts[i].value > s->stride - parts[i].size)
            return false;
    return true;
}

// Keeps what an element says, if it is wanted: the address of a variable, or the offset of a field.
static void keep_element(struct as_hotspot *h, const struct as_runtime_object *o, const struct table_shape *s,
                         const uint8_t *element, const char *type)
{
    char field[NAME];
    if (!as_runtime_constant(o, as_load_u64(element + s->field_name), field, sizeof field))
        return;
    for (size_t i = 0; i < WANTED; i++) {
        if (strcmp(type, wanted[i].type) != 0 || strcmp(field, wanted[i].field) != 0)
            continue;
        bool is_static = as_load_u32(element + s->is_static) != 0;
        h->fields[wanted[i].place] = is_static ? 0 : as_load_u64(element + s->offset);
        h->places[wanted[i].place] = is_static ? as_load_u64(element + s->address) : 0;
        h->known[wanted[i].place] = !is_static || h->places[wanted[i].place] != 0;
    }
}

static bool is_wanted_type(const char *type)
{
    for (size_t i = 0; i < WANTED; i++)
        if (strcmp(type, wanted[i].type) == 0)
            return true;
    return false;
}

static bool read_table(struct as_hotspot *h, const struct as_runtime_object *o, uint64_t table,
                       const struct table_shape *s)
{
    uint64_t last = 0; // elements of one type follow each other
    char type[NAME] = "";
    for (unsigned i = 0; i < MOST_ENTRIES; i++) {
        uint8_t element[MOST_STRIDE];
        if (!as_target_read(o->modules.target, table + i * s->stride, element, s->stride))
            return false;
        uint64_t name = as_load_u64(element + s->type_name);
        if (name == 0)
            return true;
        if (name != last && !as_runtime_constant(o, name, type, sizeof type))
            type[0] = 0;
        last = name;
        if (is_wanted_type(type))
            keep_element(h, o, s, element, type);
    }
    return false;
}

// The release is a string of the file's.
static void read_release(struct as_hotspot *h, const struct as_runtime_object *o)
{
    uint64_t text;
    if (!h->known[AS_HOTSPOT_release] || !as_target_read_u64(h->target, h->places[AS_HOTSPOT_release], &text) ||
        !as_runtime_constant(o, text, h->release, sizeof h->release))
        h->release[0] = 0;
}

bool as_hotspot_open(struct as_hotspot *h, struct as_target *t)
{
    struct table_shape shape;
    struct as_runtime_object object;
    uint64_t table;
    *h = (struct as_hotspot){.target = t};
    if (!as_runtime_object_open(&object, t, "libjvm.so"))
        return false;
    const struct as_mapping *m = &t->mappings.items[object.module.first_mapping];
    h->start = m->start;
    h->inode = m->inode;
    h->dev_major = m->dev_major;
    h->dev_minor = m->dev_minor;
    bool ok = read_shape(&object, &shape) && read_exported(&object, "gHotSpotVMStructs", &table) &&
              read_table(h, &object, table, &shape);
    if (ok)
        read_release(h, &object);
    else
        h->start = 0;
    as_runtime_object_close(&object);
    return ok;
}

bool as_hotspot_read(struct as_hotspot *h)
{
    const struct as_mapping *m = h->start ? as_target_mapping_at(h->target, h->start) : NULL;
    if (!m || m->inode != h->inode || m->dev_major != h->dev_major || m->dev_minor != h->dev_minor)
        return false;
    for (size_t i = 0; i < AS_HOTSPOT_FIELDS; i++)
        if (h->known[i] && h->places[i] != 0)
            h->known[i] = as_target_read_u64(h->target, h->places[i], &h->fields[i]);
    return true;
}
