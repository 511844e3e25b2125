// SPDX-License-Identifier: MIT
// Memory that resembles a Java virtual machine's and is not: `forged_jvm KIND` lays it out, says "ready" and waits. The tests run it
// under the name libjvm.so, and it exports what HotSpot's does.
//   true        a heap of 1 MiB, of which half is committed, one code heap, and counters: what must be found
//   counters    the same, but an entry of the counters has no length
//   beyond      the same, but an entry of the counters claims to be longer than they are
//   stride      the elements of the table claim to have no length
//   endless     the table never ends
//   names       its names are nowhere
//   heap        the collector's range is malloc's heap
//   shared      the collector's range is shared memory
//   huge        the collector's range is all of memory
//   code        the code heaps are the collector's range
//   many        the list of code heaps has two thousand million
// A metaspace of three ranges of 256 KiB together, of which 128 KiB are committed, in two lists:
//   metaspace   as HotSpot has it: what must be found
//   less        the same, but a list says that less is committed
//   short       the same, but a list says that more is reserved than its ranges have
//   ring        the same, but a list's ranges lead in a circle
//   astray      the same, but a range belongs to another list
//   twice       the same, but both ranges of a list are the same memory
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEAP = 1 << 20, COMMITTED = HEAP / 2, CODE = 65536, MAP = 4096, ENTRIES = 1 << 16 };

struct vm_struct {
    const char *type, *field, *kind;
    int32_t is_static;
    uint64_t offset;
    void *address;
};

// HotSpot's own structures, as this table describes them.
struct region {
    char *start;
    uint64_t words;
};
struct heap {
    uint64_t unused;
    struct region reserved;
};
struct space {
    char *low_boundary, *high_boundary, *low, *high;
};
struct code_heap {
    struct space memory, map;
};
struct array {
    int32_t length;
    struct code_heap **data;
};

static struct heap heap, *collected_heap = &heap;
static struct code_heap code, *code_list[] = {&code};
static struct array code_heaps = {1, code_list}, *code_heaps_pointer = &code_heaps;
static char *counters_start, *counters_end;
static const char *release = "99.9+9";

#define VARIABLE(type, field, variable)                                                                                \
    {                                                                                                                  \
        type, field, "", 1, 0, &(variable)                                                                             \
    }
#define FIELD(type, field, structure, member)                                                                          \
    {                                                                                                                  \
        type, field, "", 0, offsetof(structure, member), NULL                                                          \
    }
static struct vm_struct table[] = {
    VARIABLE("Universe", "_collectedHeap", collected_heap),
    FIELD("CollectedHeap", "_reserved", struct heap, reserved),
    FIELD("MemRegion", "_start", struct region, start),
    FIELD("MemRegion", "_word_size", struct region, words),
    VARIABLE("CodeCache", "_heaps", code_heaps_pointer),
    FIELD("CodeHeap", "_memory", struct code_heap, memory),
    FIELD("CodeHeap", "_segmap", struct code_heap, map),
    FIELD("GrowableArrayBase", "_len", struct array, length),
    FIELD("GrowableArray<int>", "_data", struct array, data),
    FIELD("VirtualSpace", "_low_boundary", struct space, low_boundary),
    FIELD("VirtualSpace", "_high_boundary", struct space, high_boundary),
    FIELD("VirtualSpace", "_low", struct space, low),
    FIELD("VirtualSpace", "_high", struct space, high),
    VARIABLE("PerfMemory", "_start", counters_start),
    VARIABLE("PerfMemory", "_end", counters_end),
    VARIABLE("Abstract_VM_Version", "_s_vm_release", release),
    {NULL, NULL, NULL, 0, 0, NULL},
};

struct vm_struct *gHotSpotVMStructs = table;
uint64_t gHotSpotVMStructEntryTypeNameOffset = offsetof(struct vm_struct, type);
uint64_t gHotSpotVMStructEntryFieldNameOffset = offsetof(struct vm_struct, field);
uint64_t gHotSpotVMStructEntryIsStaticOffset = offsetof(struct vm_struct, is_static);
uint64_t gHotSpotVMStructEntryOffsetOffset = offsetof(struct vm_struct, offset);
uint64_t gHotSpotVMStructEntryAddressOffset = offsetof(struct vm_struct, address);
uint64_t gHotSpotVMStructEntryArrayStride = sizeof(struct vm_struct);

// Metaspace: two contexts, each with a list of ranges, which lead back to their list.
struct list;
struct range {
    struct range *next;
    char *base;
    uint64_t bytes, unused[4];
    char *base_again;
    uint64_t words, used;
    void *limiter;
    uint64_t *reserved, *committed;
    uint64_t rest[12];
};
struct list {
    void *vtable;
    const char *name;
    struct range *first;
    uint64_t flags;
    void *limiter;
    uint64_t reserved, committed;
};
struct context {
    const char *name;
    struct list *list;
};
static struct context *contexts[2];
static int limiter;

static char *memory(size_t bytes, int protection, int flags)
{
    char *map = mmap(NULL, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    return map;
}

static struct space make_space(size_t bytes, int protection)
{
    char *map = memory(bytes, protection, MAP_PRIVATE);
    memset(map, 1, bytes);
    return (struct space){map, map + bytes, map, map + bytes};
}

struct header {
    uint32_t magic;
    uint8_t byte_order, major, minor, accessible;
    int32_t used, overflow;
    int64_t modified;
    int32_t first_entry, entries;
};
struct entry {
    int32_t length, name, vector_length;
    uint8_t type, flags, unit, variability;
    int32_t value;
    char text[48]; // behind the 20 bytes of HotSpot's
    char padding[4];
    int64_t number;
};

static void count(const char *name, int64_t number)
{
    struct header *header = (struct header *)counters_start;
    struct entry entry = {
        .length = sizeof entry,
        .name = offsetof(struct entry, text),
        .type = 'J',
        .value = offsetof(struct entry, number),
        .number = number,
    };
    strncpy(entry.text, name, sizeof entry.text - 1);
    memcpy(counters_start + header->used, &entry, sizeof entry);
    header->used += (int32_t)sizeof entry;
    header->entries++;
}

static void make_counters(const char *kind)
{
    struct header header = {0xc0c0feca, 1, 2, 0, 1, sizeof header, 0, 0, sizeof header, 0};
    counters_start = memory(MAP, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    counters_end = counters_start + MAP;
    memcpy(counters_start, &header, sizeof header);
    count("sun.gc.policy.generations", 1);
    int32_t second = ((struct header *)counters_start)->used;
    count("sun.gc.generation.0.spaces", 1);
    count("sun.gc.generation.0.space.0.used", COMMITTED / 4);
    count("sun.gc.generation.0.capacity", COMMITTED);
    count("sun.gc.metaspace.used", 4096);
    count("sun.gc.metaspace.capacity", 8192);
    struct entry *entry = (struct entry *)(counters_start + second);
    if (strcmp(kind, "counters") == 0)
        entry->length = 0;
    if (strcmp(kind, "beyond") == 0)
        entry->length = INT32_MAX;
}

// A table that goes on until the kernel says that there is no more memory, and then some.
static void make_endless(void)
{
    struct vm_struct *endless =
        (struct vm_struct *)memory(ENTRIES * sizeof *endless, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    size_t count = sizeof table / sizeof *table - 1;
    for (size_t i = 0; i < ENTRIES; i++)
        endless[i] = table[i % count];
    gHotSpotVMStructs = endless;
}

static struct range *make_range(struct list *list, uint64_t bytes, uint64_t committed)
{
    char *base =
        (char *)(((uintptr_t)memory(2 * (size_t)CODE + bytes, PROT_NONE, MAP_PRIVATE) + CODE) & ~(uintptr_t)(CODE - 1));
    if (committed > 0 && mprotect(base, committed, PROT_READ | PROT_WRITE) != 0)
        _exit(1);
    memset(base, 1, committed);
    struct range *range = calloc(1, sizeof *range);
    if (!range)
        _exit(1);
    *range = (struct range){.next = list->first,
                            .base = base,
                            .bytes = bytes,
                            .base_again = base,
                            .words = bytes / 8,
                            .limiter = &limiter,
                            .reserved = &list->reserved,
                            .committed = &list->committed};
    list->reserved += bytes / 8;
    list->committed += committed / 8;
    return list->first = range;
}

static void make_metaspace(const char *kind)
{
    static const char *const names[] = {"class-space", "non-class-space"};
    for (int i = 0; i < 2; i++) {
        struct list *list = calloc(1, sizeof *list);
        contexts[i] = calloc(1, sizeof *contexts[i]);
        if (!list || !contexts[i])
            _exit(1);
        *list = (struct list){.vtable = table, .name = names[i], .limiter = &limiter};
        *contexts[i] = (struct context){names[i], list};
        make_range(list, CODE, i == 0 ? CODE : 0);
    }
    struct list *list = contexts[1]->list;
    struct range *other = list->first, *range = make_range(list, 2 * CODE, CODE);
    if (strcmp(kind, "less") == 0)
        list->committed -= 512;
    if (strcmp(kind, "short") == 0)
        list->reserved += CODE / 8;
    if (strcmp(kind, "ring") == 0)
        other->next = range;
    if (strcmp(kind, "astray") == 0)
        other->reserved = &contexts[0]->list->reserved;
    if (strcmp(kind, "twice") == 0) {
        other->base = other->base_again = range->base;
        list->committed += CODE / 8;
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "true";
    bool shared = strcmp(kind, "shared") == 0;
    heap.reserved = (struct region){memory(HEAP, PROT_NONE, shared ? MAP_SHARED : MAP_PRIVATE), HEAP / 8};
    if (mprotect(heap.reserved.start, COMMITTED, PROT_READ | PROT_WRITE) != 0)
        return 1;
    memset(heap.reserved.start, 1, COMMITTED / 2);
    code.memory = make_space(CODE, PROT_READ | PROT_WRITE | PROT_EXEC);
    code.map = make_space(MAP, PROT_READ | PROT_WRITE);
    make_counters(kind);
    if (strcmp(kind, "stride") == 0)
        gHotSpotVMStructEntryArrayStride = 0;
    if (strcmp(kind, "endless") == 0)
        make_endless();
    for (struct vm_struct *s = table; s->type && strcmp(kind, "names") == 0; s++)
        s->type = s->field = (const char *)8;
    if (strcmp(kind, "heap") == 0) {
        char *block = malloc(100); // at the beginning of the main arena, whose pages go on
        heap.reserved = (struct region){(char *)((uintptr_t)block & ~(uintptr_t)4095), 4096 / 8};
    }
    if (strcmp(kind, "huge") == 0)
        heap.reserved = (struct region){(char *)4096, UINT64_MAX / 8};
    if (strcmp(kind, "code") == 0)
        code.memory = (struct space){heap.reserved.start, heap.reserved.start + HEAP, heap.reserved.start,
                                     heap.reserved.start + COMMITTED};
    if (strcmp(kind, "many") == 0)
        code_heaps.length = INT32_MAX;
    static const char *const of_metaspace[] = {"metaspace", "less", "short", "ring", "astray", "twice"};
    for (size_t i = 0; i < sizeof of_metaspace / sizeof of_metaspace[0]; i++)
        if (strcmp(kind, of_metaspace[i]) == 0)
            make_metaspace(kind);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
