// SPDX-License-Identifier: MIT
#include "runtimes/ruby_weak.h"
#include "base/sort.h"
#include "runtimes/ruby_classes.h"

enum {
    HEADER = 16,
    SIZE_FLAGS = 7,
    MARK_WORDS = 500, // STACK_CHUNK_SIZE (gc.c); behind these, the next part
    MARK_CHUNK = 4016,
    MOST_SPARE = 32,  // bytes that malloc may leave with a chunk
    PARTS_BEHIND = 2, // that are told of with one
    ENTRY = 3,        // words of an entry of st_table: hash, key, value
    FEW = 8,          // entries, by which nearly all that is no table is told
    ENTRIES = 42,
    BATCH = 64,
};
#define DELETED UINT64_MAX // hash of an entry that is not in use (st.c: RESERVED_HASH_VAL)

enum weak_kind { HEAP_PAGE, MARK_STACK, STRING_TABLE, PROMOTED, WEAK_KINDS };

struct chunk_head {
    uint64_t previous, size, words[FEW * ENTRY];
};

// Is a chunk a part of the stack? All of it but the last was filled before the next was begun. *behind: the part that follows; 0: none.
static bool is_mark_stack(struct as_target *t, const struct as_store *s, uint64_t chunk, const uint64_t *chunks,
                          size_t count, uint64_t *behind)
{
    uint64_t words[MARK_WORDS + 1];
    size_t objects = 0, others = 0;
    if (!as_target_read(t, chunk + HEADER, words, sizeof words))
        return false;
    for (size_t i = 0; i < MARK_WORDS; i++) {
        bool object = as_ruby_in_pages(s, words[i]);
        objects += object;
        others += !object && words[i] != 0;
    }
    uint64_t next = words[MARK_WORDS] - HEADER;
    size_t place = as_lower_bound(chunks, count, next);
    *behind = words[MARK_WORDS] != 0 ? next : 0;
    return objects >= MARK_WORDS / 2 && others <= MARK_WORDS / 10 &&
           (words[MARK_WORDS] == 0 || (place < count && chunks[place] == next));
}

// Is each of these entries of a table a string that is its own value, or not in use? *string: the last of these; 0: none.
static bool are_strings(const struct as_store *s, const uint64_t *words, size_t count, uint64_t *string)
{
    *string = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *entry = words + i * ENTRY;
        if (entry[0] == DELETED)
            continue;
        if (entry[1] != entry[2] || !as_ruby_in_pages(s, entry[1]))
            return false;
        *string = entry[1];
    }
    return true;
}

// Is a chunk, of which this is the head, a table of strings?
static bool is_string_table(struct as_target *t, const struct as_store *s, uint64_t chunk,
                            const struct chunk_head *head)
{
    uint64_t words[ENTRIES * ENTRY], string, flags;
    return are_strings(s, head->words, FEW, &string) && as_target_read(t, chunk + HEADER, words, sizeof words) &&
           are_strings(s, words, ENTRIES, &string) && string != 0 && as_target_read_u64(t, string, &flags) &&
           as_ruby_type_of(flags) == AS_RUBY_T_STRING;
}

static bool visit_memory(const struct as_object_visitor *visitor, uint64_t memory, uint64_t size, uint32_t type)
{
    return visitor->block(visitor->context, &(struct as_visited_block){.address = memory, .size = size, .type = type});
}

// Tells of the parts behind one: of these, the last may have been filled a little only.
static bool visit_behind(struct as_target *t, uint64_t chunk, const uint64_t *chunks, size_t count, uint32_t type,
                         const struct as_object_visitor *visitor)
{
    for (int i = 0; i < PARTS_BEHIND && chunk != 0; i++) {
        size_t place = as_lower_bound(chunks, count, chunk);
        uint64_t size, next;
        if (place == count || chunks[place] != chunk || !as_target_read_u64(t, chunk + sizeof size, &size) ||
            !as_target_read_u64(t, chunk + HEADER + MARK_WORDS * sizeof next, &next))
            return true;
        size &= ~(uint64_t)SIZE_FLAGS;
        if (size < MARK_CHUNK || size > MARK_CHUNK + MOST_SPARE)
            return true;
        if (!visit_memory(visitor, chunk + HEADER, size - HEADER, type))
            return false;
        chunk = next != 0 ? next - HEADER : 0;
    }
    return true;
}

// The descriptors of pages (struct heap_page), to which the first word of each page leads.
static bool visit_pages(struct as_target *t, const struct as_store *store, uint32_t type,
                        const struct as_object_visitor *visitor)
{
    uint64_t pages[BATCH], descriptors[BATCH];
    bool ok[BATCH];
    for (size_t at = 0; at < store->ruby.count; at += BATCH) {
        size_t some = store->ruby.count - at < BATCH ? store->ruby.count - at : BATCH;
        for (size_t i = 0; i < some; i++)
            pages[i] = store->ruby.items[at + i].address;
        as_target_gather(t, pages, some, sizeof *descriptors, descriptors, sizeof *descriptors, ok);
        for (size_t i = 0; i < some; i++)
            if (ok[i] && !visit_memory(visitor, descriptors[i], AS_RUBY_HEADER, type))
                return false;
    }
    return true;
}

bool as_ruby_visit_weak(struct as_target *t, const struct as_store *store, const uint64_t *chunks, size_t count,
                        uint64_t promoted, uint32_t first_type, const struct as_object_visitor *visitor)
{
    struct chunk_head heads[BATCH];
    bool ok[BATCH];
    if (!visit_pages(t, store, first_type + HEAP_PAGE, visitor) ||
        (promoted != 0 && !visit_memory(visitor, promoted, HEADER, first_type + PROMOTED)))
        return false;
    for (size_t at = 0; at < count; at += BATCH) {
        size_t some = count - at < BATCH ? count - at : BATCH;
        as_target_gather(t, chunks + at, some, sizeof *heads, heads, sizeof *heads, ok);
        for (size_t i = 0; i < some; i++) {
            uint64_t size = heads[i].size & ~(uint64_t)SIZE_FLAGS, behind = 0;
            bool marking = ok[i] && size >= MARK_CHUNK && size <= MARK_CHUNK + MOST_SPARE &&
                           is_mark_stack(t, store, chunks[at + i], chunks, count, &behind);
            bool strings = ok[i] && !marking && is_string_table(t, store, chunks[at + i], &heads[i]);
            if ((marking || strings) && !visit_memory(visitor, chunks[at + i] + HEADER, size - HEADER,
                                                      first_type + (marking ? MARK_STACK : STRING_TABLE)))
                return false;
            if (marking && !visit_behind(t, behind, chunks, count, first_type + MARK_STACK, visitor))
                return false;
        }
    }
    return true;
}

bool as_ruby_visit_weak_types(const struct as_object_visitor *visitor)
{
    static const char *const names[WEAK_KINDS] = {[HEAP_PAGE] = "heap page",
                                                  [MARK_STACK] = "mark stack",
                                                  [STRING_TABLE] = "table of strings",
                                                  [PROMOTED] = "list of promoted objects"};
    for (int i = 0; i < WEAK_KINDS; i++)
        if (!visitor->type(
                visitor->context,
                &(struct as_visited_type){
                    .name = names[i], .memory = "memory", .of_heap = true, .leftovers = true, .linked = true}))
            return false;
    return true;
}
