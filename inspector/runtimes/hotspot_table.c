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
    const char *type, *field;
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
static bool read_exported(struct as_hotspot *h, const char *name, uint64_t *value)
{
    uint64_t address = as_runtime_symbol(&h->object, name);
    return address && as_target_read_u64(h->object.modules.target, address, value);
}

static bool read_shape(struct as_hotspot *h, struct table_shape *s)
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
    if (!read_exported(h, "gHotSpotVMStructEntryArrayStride", &s->stride) || s->stride == 0 || s->stride > MOST_STRIDE)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!read_exported(h, parts[i].name, parts[i].value) || *parts[i].value > s->stride - parts[i].size)
            return false;
    return true;
}

// Keeps what an element says, if it is wanted: the value of a variable, or the offset of a field.
static void keep(struct as_hotspot *h, const struct table_shape *s, const uint8_t *element, const char *type)
{
    char field[NAME];
    if (!as_runtime_constant(&h->object, as_load_u64(element + s->field_name), field, sizeof field))
        return;
    for (size_t i = 0; i < WANTED; i++) {
        if (strcmp(type, wanted[i].type) != 0 || strcmp(field, wanted[i].field) != 0)
            continue;
        uint64_t *value = &h->fields[wanted[i].place];
        *value = as_load_u64(element + s->offset);
        h->known[wanted[i].place] =
            as_load_u32(element + s->is_static) == 0 ||
            as_target_read_u64(h->object.modules.target, as_load_u64(element + s->address), value);
    }
}

static bool is_wanted_type(const char *type)
{
    for (size_t i = 0; i < WANTED; i++)
        if (strcmp(type, wanted[i].type) == 0)
            return true;
    return false;
}

static bool read_table(struct as_hotspot *h, uint64_t table, const struct table_shape *s)
{
    uint64_t last = 0; // elements of one type follow each other
    char type[NAME] = "";
    for (unsigned i = 0; i < MOST_ENTRIES; i++) {
        uint8_t element[MOST_STRIDE];
        if (!as_target_read(h->object.modules.target, table + i * s->stride, element, s->stride))
            return false;
        uint64_t name = as_load_u64(element + s->type_name);
        if (name == 0)
            return true;
        if (name != last && !as_runtime_constant(&h->object, name, type, sizeof type))
            type[0] = 0;
        last = name;
        if (is_wanted_type(type))
            keep(h, s, element, type);
    }
    return false;
}

bool as_hotspot_open(struct as_hotspot *h, struct as_target *t)
{
    struct table_shape shape;
    uint64_t table;
    *h = (struct as_hotspot){0};
    if (!as_runtime_object_open(&h->object, t, "libjvm.so"))
        return false;
    if (!read_shape(h, &shape) || !read_exported(h, "gHotSpotVMStructs", &table) || !read_table(h, table, &shape)) {
        as_hotspot_close(h);
        return false;
    }
    if (h->known[AS_HOTSPOT_release] &&
        !as_runtime_constant(&h->object, h->fields[AS_HOTSPOT_release], h->release, sizeof h->release))
        h->release[0] = 0;
    return true;
}

void as_hotspot_close(struct as_hotspot *h)
{
    as_runtime_object_close(&h->object);
}
