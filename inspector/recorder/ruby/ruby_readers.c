// SPDX-License-Identifier: MIT
// Some offsets depend on how a Ruby was built. Its own functions that read there have the same offsets in their machine
// code. They are read, and not called. That a collection is under way stands at the beginning of the objspace, where
// what may be built differently comes before the number of collections, too.
#include "recorder/code_objects.h"
#include "recorder/ruby/ruby.h"

#include <string.h>

struct reader {
    const char *name;
    uint16_t offset;
};

// Gets how far behind an address a load reads. False: the instruction there, of which at most LONGEST bytes are read, is none.
#if defined(__x86_64__)
enum { STEP = 1, LONGEST = 7, PREFIX = 0x0f, MODE_SHIFT = 6, BASE = 7, BASE_AND_INDEX = 4 };
enum { NEAR = 1, FAR = 2 }; // a distance of one byte, and of four

static bool is_load(const uint8_t **at)
{
    if (**at == PREFIX)
        return *++*at == 0xb6 || **at == 0xbe;           // a byte, with zeros or its sign
    return **at == 0x8b || **at == 0x63 || **at == 0x83; // mov, movslq, and cmp with a constant
}

static bool read_load(uintptr_t place, int64_t *offset)
{
    const uint8_t *at = (const uint8_t *)place;
    if (!is_load(&at))
        return false;
    uint8_t mode = *++at;
    int32_t far;
    memcpy(&far, ++at, sizeof far);
    *offset = mode >> MODE_SHIFT == NEAR ? (int8_t)*at : far;
    return (mode >> MODE_SHIFT == NEAR || mode >> MODE_SHIFT == FAR) && (mode & BASE) != BASE_AND_INDEX;
}
#else
enum { STEP = 4, LONGEST = 4, OFFSET_SHIFT = 10, OFFSET_MASK = 0xfff };
static const struct {
    uint32_t code, shift;
} loads[] = {{0xf9400000, 3}, {0xb9400000, 2}, {0xb9800000, 2}, {0x39400000, 0}}; // ldr of 64 and 32 bits, ldrsw, ldrb

static bool read_load(uintptr_t place, int64_t *offset)
{
    uint32_t word = as_inner_half(place);
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        if ((word & 0xffc00000) == loads[i].code) {
            *offset = (int64_t)(word >> OFFSET_SHIFT & OFFSET_MASK) << loads[i].shift;
            return true;
        }
    return false;
}
#endif

// Returns whether a function has a load at this offset. Only the beginning of a long function is read.
static bool has_load(uintptr_t start, uintptr_t size, int64_t offset)
{
    enum { MOST_READ = 512 };
    int64_t found;
    size = size < MOST_READ ? size : MOST_READ;
    if (start < as_cruby.code || start >= as_cruby.code_end || size + LONGEST > as_cruby.code_end - start)
        return false;
    for (uintptr_t at = start; at < start + size; at += STEP)
        if (read_load(at, &found) && found == offset)
            return true;
    return false;
}

static bool agrees(const struct as_recorder_object *o, const struct reader *r, bool needed)
{
    const ElfW(Sym) *symbol = as_recorder_find_symbol(o, r->name, STT_FUNC);
    return symbol ? has_load(o->bias + symbol->st_value, symbol->st_size, r->offset) : !needed;
}

bool as_cruby_readers_agree(const struct as_recorder_object *o, const struct as_cruby_layout *l)
{
    const struct reader all[] = {
        {"rb_during_gc", l->objspace}, {"rb_gc_count", l->gc_count}, {"ruby_thread_has_gvl_p", l->blocking}};
    const struct reader of_iseqs[] = {
        {"rb_iseq_label", l->label}, {"rb_iseq_path", l->path}, {"rb_iseq_first_lineno", l->first_line}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!agrees(o, &all[i], true))
            return false;
    for (size_t i = 0; i < sizeof of_iseqs / sizeof *of_iseqs; i++)
        if (!agrees(o, &of_iseqs[i], l->hidden))
            return false;
    return true;
}
