// SPDX-License-Identifier: MIT
#include "inject/entry/entry_guard.h"
#include "inject/entry/instruction.h"

#include <stdio.h>
#include <string.h>

enum {
    ENDBR64 = 4,         // bytes
    REACH = 128,         // of a short jump, backwards
    PIECE = 16 * 1024,   // of libc's code that is read at a time
    MOST_SIZE = 1 << 16, // of a function
    OVERLAP = 8,         // an instruction that begins in one piece may end in the next
    WAY_ON = 14,         // jmp *(%rip), and the hook's address
    WORDS = 200,         // of an error
};

const char *as_entry_name(size_t index)
{
    static const char *const names[AS_ENTRY_COUNT] = {
        "malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "dlclose"};
    return index < AS_ENTRY_COUNT ? names[index] : "?";
}

static bool read_exactly(struct as_target *t, uint64_t address, void *out, size_t length)
{
    return t->ops->memory.read(t, address, out, length) == length; // not as it was before a stop
}

static const struct as_mapping *code_at(struct as_target *t, uint64_t address, uint64_t size)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    return m && (m->prot & AS_PROT_EXEC) && size <= m->end - address ? m : NULL;
}

// The page is the target's memory, and may say anything.
bool as_entry_page_read(struct as_target *t, uint64_t address, struct as_entry_page *page, struct as_error *err)
{
    bool ok = address % AS_ENTRY_PAGE == 0 && read_exactly(t, address, page, sizeof *page) &&
              page->magic == AS_ENTRY_MAGIC && page->self == address && code_at(t, address, AS_ENTRY_PAGE) &&
              page->entries[0].function != 0;
    for (size_t i = 0; ok && i < AS_ENTRY_COUNT; i++) {
        const struct as_entry *e = &page->entries[i];
        ok = e->function == 0 ||
             (e->size >= AS_ENTRY_JUMP && e->size < MOST_SIZE && code_at(t, e->function, e->size) &&
              code_at(t, e->hook, 1) && (e->at == 0 || e->at == ENDBR64) && e->length <= AS_ENTRY_MOST);
    }
    return ok ||
           as_fail(err, AS_UNSUPPORTED,
                   "the agent in process %d has no readable page for hooks at entries, or is of another build", t->pid);
}

bool as_entry_is_patched(struct as_target *t, const struct as_entry *e, bool *foreign)
{
    uint8_t there[AS_ENTRY_JUMP];
    *foreign = false;
    if (e->function == 0 || e->length < AS_ENTRY_JUMP)
        return false;
    bool read = read_exactly(t, e->function + e->at, there, sizeof there);
    bool patched = read && memcmp(there, e->jump, sizeof there) == 0;
    *foreign = !patched && (!read || memcmp(there, e->original, sizeof there) != 0);
    return patched;
}

// --- One function -----------------------------------------------------------------------------------------------------

static bool refuse_entry(const struct as_target *t, size_t index, const char *why, struct as_error *err)
{
    return as_fail(err, AS_UNSUPPORTED,
                   "the entry of %s in process %d cannot be patched: %s. Nothing was changed; record without --entry",
                   as_entry_name(index), t->pid, why);
}

// How many bytes the instructions have that the jump would stand on; 0: `why`.
static uint32_t covered(const uint8_t *code, size_t length, char *why)
{
    uint32_t at = 0;
    struct as_instruction i;
    while (at < AS_ENTRY_JUMP) {
        if (!as_instruction_read(code + at, length - at, &i) || at + i.length > AS_ENTRY_MOST) {
            snprintf(why, WORDS, "its instruction at +%u (%02x ...) is not known, or the function ends there", at,
                     at < length ? code[at] : 0);
            return 0;
        }
        at += i.length;
    }
    return at;
}

// Does a jump of the function's lead into the bytes behind the first that would be overwritten? All that can reach them with a short
// jump is read as instructions; long ones are searched for in all of libc's code (search).
static bool is_entered_within(const uint8_t *code, size_t length, char *why)
{
    struct as_instruction i;
    size_t end = length < AS_ENTRY_MOST + REACH ? length : AS_ENTRY_MOST + REACH;
    for (size_t at = 0; at < end; at += i.length) {
        if (!as_instruction_read(code + at, length - at, &i)) {
            snprintf(why, WORDS, "its code at +%zu (%02x ...) is not known, so that it may lead back to the entry", at,
                     code[at]);
            return true;
        }
        int64_t target = (int64_t)at + i.length + i.displacement;
        if (i.kind != AS_INSTRUCTION_PLAIN && i.kind != AS_INSTRUCTION_OTHER && target > 0 && target < AS_ENTRY_JUMP) {
            snprintf(why, WORDS, "its code at +%zu leads back into the bytes that would be overwritten", at);
            return true;
        }
    }
    return false;
}

static void put_way_on(uint8_t *out, uint64_t hook)
{
    static const uint8_t JUMP[] = {0xff, 0x25, 0, 0, 0, 0}; // to the address behind it
    memcpy(out, JUMP, sizeof JUMP);
    memcpy(out + sizeof JUMP, &hook, sizeof hook);
}

static bool put_jump(struct as_entry *e, uint64_t to)
{
    uint64_t next = e->function + e->at + AS_ENTRY_JUMP;
    int32_t distance = (int32_t)(int64_t)(to - next);
    e->jump[0] = 0xe9;
    memcpy(e->jump + 1, &distance, sizeof distance);
    return (int64_t)(to - next) == distance;
}

static bool plan_one(struct as_entry_plan *plan, struct as_target *t, size_t index, struct as_error *err)
{
    struct as_entry *e = &plan->page.entries[index];
    uint8_t code[ENDBR64 + AS_ENTRY_MOST + REACH + 16];
    size_t length = e->size < sizeof code ? (size_t)e->size : sizeof code;
    uint8_t *place = plan->code + index * AS_ENTRY_PLACE;
    uint64_t there = as_entry_place(plan->address, (uint32_t)index);
    char why[WORDS] = "its code cannot be read";
    if (!read_exactly(t, e->function, code, length))
        return refuse_entry(t, index, why, err);
    memset(e->original, 0, sizeof e->original);
    memset(e->jump, 0, sizeof e->jump);
    e->at = as_is_endbr64(code, length) ? ENDBR64 : 0;
    e->length = covered(code + e->at, length - e->at, why);
    if (e->length == 0)
        return refuse_entry(t, index, why, err);
    memcpy(e->original, code + e->at, e->length);
    // It is called through a pointer: with IBT such code begins with endbr64.
    static const uint8_t BEGIN[ENDBR64] = {0xf3, 0x0f, 0x1e, 0xfa};
    memcpy(place, BEGIN, sizeof BEGIN);
    if (as_instructions_move(e->original, e->length, e->function + e->at, there + ENDBR64, place + ENDBR64,
                             AS_ENTRY_WAY_ON - ENDBR64, why, sizeof why) == 0 ||
        is_entered_within(code + e->at, length - e->at, why))
        return refuse_entry(t, index, why, err);
    put_way_on(place + AS_ENTRY_WAY_ON, e->hook);
    return put_jump(e, there + AS_ENTRY_WAY_ON) || refuse_entry(t, index, "the page of code is too far away", err);
}

// --- All of libc's code -----------------------------------------------------------------------------------------------

// A call or jump with a distance of 32 bits that may stand at this byte: the address that it leads to; 0: none does.
static uint64_t long_target(const uint8_t *code, uint64_t address)
{
    int32_t distance;
    size_t opcode = code[0] == 0xe8 || code[0] == 0xe9 ? 1 : code[0] == 0x0f && code[1] >> 4 == 8 ? 2 : 0;
    memcpy(&distance, code + opcode, sizeof distance);
    return opcode == 0 ? 0 : address + opcode + sizeof distance + (uint64_t)(int64_t)distance;
}

// From the first of malloc and its kin to the end of the last.
static struct as_range hull_of(const struct as_entry_page *page)
{
    struct as_range hull = {UINT64_MAX, 0};
    AS_FOR_ITEMS(const struct as_entry, e, page->entries, AS_ENTRY_MALLOCS) {
        if (e->function == 0)
            continue;
        hull.start = e->function < hull.start ? e->function : hull.start;
        hull.end = e->function + e->size > hull.end ? e->function + e->size : hull.end;
    }
    return hull;
}

// The recorder takes what malloc and its kin, and those between them, call for a part of one allocation. No other direct call of one
// may be there, nor a jump behind an entry.
static bool check_target(struct as_target *t, const struct as_entry_page *page, const struct as_range *hull,
                         uint64_t from, uint64_t to, struct as_error *err)
{
    for (size_t i = 0; i < AS_ENTRY_COUNT; i++) {
        const struct as_entry *e = &page->entries[i];
        if (e->function == 0 || to < e->function || to >= e->function + e->at + AS_ENTRY_JUMP)
            continue;
        if (to > e->function + e->at)
            return refuse_entry(t, i, "other code of libc's leads into the bytes that would be overwritten", err);
        if (i < AS_ENTRY_MALLOCS && (from < hull->start || from >= hull->end))
            return refuse_entry(
                t, i, "code of libc's that is not malloc's calls it directly, and would be taken for it", err);
    }
    return true;
}

static bool search_in(struct as_target *t, const struct as_entry_page *page, const struct as_mapping *m,
                      struct as_error *err)
{
    uint8_t code[PIECE];
    const struct as_range hull = hull_of(page);
    const struct as_entry *last = &page->entries[AS_ENTRY_MALLOCS];
    for (uint64_t at = m->start; at < m->end; at += PIECE - OVERLAP) {
        size_t length = m->end - at < PIECE ? (size_t)(m->end - at) : PIECE;
        if (!read_exactly(t, at, code, length))
            return refuse_entry(t, 0, "libc's code cannot be read", err);
        for (size_t i = 0; i + OVERLAP <= length; i++) {
            uint64_t to = long_target(code + i, at + i);
            bool near =
                (to >= hull.start && to < hull.end) || (last->function != 0 && to - last->function < last->size);
            if (near && !check_target(t, page, &hull, at + i, to, err))
                return false;
        }
    }
    return true;
}

static bool search_entries(struct as_target *t, const struct as_entry_page *page, struct as_error *err)
{
    const struct as_range hull = hull_of(page);
    const struct as_entry *last = &page->entries[AS_ENTRY_MALLOCS];
    const struct as_mapping *m = code_at(t, hull.start, hull.end - hull.start);
    const struct as_mapping *other = last->function != 0 ? code_at(t, last->function, last->size) : NULL;
    if (!m)
        return refuse_entry(t, 0, "its code and that of its kin lie in several mappings", err);
    return search_in(t, page, m, err) && (!other || other == m || search_in(t, page, other, err));
}

bool as_entry_plan_make(struct as_entry_plan *plan, struct as_target *t, uint64_t address, struct as_error *err)
{
    *plan = (struct as_entry_plan){.address = address};
    if (!as_entry_page_read(t, address, &plan->page, err))
        return false;
    for (size_t i = 0; i < AS_ENTRY_COUNT; i++)
        if (plan->page.entries[i].function != 0 && !plan_one(plan, t, i, err))
            return false;
    return search_entries(t, &plan->page, err);
}
