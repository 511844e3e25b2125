// SPDX-License-Identifier: MIT
#include "unwind/table.h"
#include "base/memory.h"
#include "base/sort.h"
#include "base/vec.h"
#include "unwind/frames.h"
#include "unwind/rule.h"

enum { MOST_RULES = 1 << 16, SLOTS = MOST_RULES * 2 };
enum { WORK_PER_BYTE = 16 }; // of the segment: 3 in real modules, whose functions share CIEs
static const char magic[8] = "asunwind";

// Functions by address: the low 32 bits are the place of the FDE, from the segment's beginning.
typedef AS_VEC(uint64_t) functions;

struct table_making {
    const struct as_unwind_image *image;
    AS_VEC(uint32_t) offsets;
    AS_VEC(uint16_t) of;
    AS_VEC(uint64_t) rules;
    uint16_t *slots;  // rules by their hash: the index + 1
    uint64_t covered; // rows reach up to here
    uint64_t last;    // the rule of the last row
    uint64_t lost;
    bool failed;
};

static uint64_t mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 32;
}

// Eight bytes at a time; the last ones may be fewer. Not against forgers, who are kept out by the file's owner.
static uint64_t checksum(const uint8_t *bytes, size_t size, uint64_t sum)
{
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, size - at < 8 ? size - at : 8);
        sum = mix(sum ^ word);
    }
    return sum;
}

uint64_t as_unwind_table_sum(const struct as_unwind_head *head, size_t bytes)
{
    return checksum((const uint8_t *)(head + 1), bytes - sizeof *head, bytes);
}

// Returns the sum of .eh_frame_hdr: of its ends, if it is large, as a program's start must not wait for all its pages.
static uint64_t source_sum(const struct as_unwind_image *image)
{
    enum { END = 32 << 10 };
    struct as_bytes b = as_frames_at(image, image->header);
    size_t size = as_bytes_left(&b) < image->header_size ? as_bytes_left(&b) : image->header_size;
    if (size <= 2 * (size_t)END)
        return checksum(b.at, size, size);
    return checksum(b.at + size - END, END, checksum(b.at, END, size));
}

// The number of a rule; when there are too many (no real module has a tenth), that of "none", which is the first.
static uint16_t number_of(struct table_making *making, uint64_t rule)
{
    size_t slot = mix(rule) % SLOTS;
    for (; making->slots[slot] && making->rules.items; slot = (slot + 1) % SLOTS)
        if (making->rules.items[making->slots[slot] - 1] == rule)
            return (uint16_t)(making->slots[slot] - 1);
    if (making->rules.count == MOST_RULES - 1)
        return 0;
    uint64_t *added = as_vec_add(&making->rules, NULL);
    if (!added) {
        making->failed = true;
        return 0;
    }
    *added = rule;
    making->slots[slot] = (uint16_t)making->rules.count;
    return (uint16_t)(making->rules.count - 1);
}

static void add_row(struct table_making *making, uint64_t address, uint64_t rule)
{
    uint64_t offset = address - making->image->text;
    if (making->offsets.count > 0 && rule == making->last)
        return;
    uint32_t *place = as_vec_add(&making->offsets, NULL);
    uint16_t *of = as_vec_add(&making->of, NULL);
    if (!place || !of) {
        making->failed = true;
        return;
    }
    *place = (uint32_t)offset;
    *of = number_of(making, rule);
    making->last = rule;
    making->lost += rule == as_unwind_special(AS_UNWIND_NONE);
}

static void take_row(void *context, uint64_t address, uint64_t rule)
{
    add_row(context, address, rule);
}

// A function's rows. One that overlaps what is there already is damage, as is one outside of the module's code.
static void add_function(struct table_making *making, const struct as_cie *cie, const struct as_fde *fde,
                         uint64_t *work)
{
    const struct as_unwind_image *image = making->image;
    uint64_t offset = fde->start - image->text;
    if (fde->start < image->text || offset >= image->text_size || fde->end - fde->start > image->text_size - offset ||
        fde->start < making->covered)
        return;
    if (fde->start > making->covered)
        add_row(making, making->covered, as_unwind_special(AS_UNWIND_UNCOVERED));
    as_program_run(image, cie, fde, work, take_row, making);
    making->covered = fde->end;
}

static void add_place(functions *found, const struct as_unwind_image *image, uint64_t start, uint64_t entry)
{
    uint64_t offset = start - image->text;
    if (start < image->text || offset >= image->text_size || offset > UINT32_MAX ||
        entry - image->address >= image->size)
        return;
    uint64_t *place = as_vec_add(found, NULL);
    if (place)
        *place = offset << 32 | (entry - image->address);
}

// Where there is no table of functions: the entries one behind the other.
static void list_entries(functions *found, const struct as_unwind_image *image, uint64_t address)
{
    struct as_cie cie = {.offset = UINT64_MAX};
    for (uint64_t next; address != 0; address = next) {
        struct as_fde fde;
        if (as_frames_read(image, address, &cie, &fde, &next))
            add_place(found, image, fde.start, address);
    }
}

// The functions, by the binary search table of .eh_frame_hdr where it has one.
static bool list_functions(functions *found, const struct as_unwind_image *image)
{
    enum { SORTED = 0x3b, OMITTED = 0xff }; // signed 4 bytes from the header on: what every linker writes
    struct as_bytes b = as_frames_at(image, image->header);
    uint64_t version = as_bytes_number(&b, 1);
    uint8_t frames_encoding = (uint8_t)as_bytes_number(&b, 1);
    uint8_t count_encoding = (uint8_t)as_bytes_number(&b, 1);
    uint8_t table_encoding = (uint8_t)as_bytes_number(&b, 1);
    uint64_t frames;
    uint64_t count;
    if (version != 1 || !as_frames_pointer(image, &b, frames_encoding, image->header, &frames))
        return false;
    if (table_encoding != SORTED || !as_frames_pointer(image, &b, count_encoding, image->header, &count)) {
        list_entries(found, image, frames);
    } else {
        for (; count > 0 && as_bytes_left(&b) >= 8; count--) {
            uint64_t start = image->header + (uint64_t)as_bytes_signed(&b, 4);
            add_place(found, image, start, image->header + (uint64_t)as_bytes_signed(&b, 4));
        }
    }
    return as_sort_u64(found->items, found->count, NULL);
}

static void add_functions(struct table_making *making, const functions *found)
{
    const struct as_unwind_image *image = making->image;
    struct as_cie cie = {.offset = UINT64_MAX};
    uint64_t work = image->size * WORK_PER_BYTE;
    for (size_t i = 0; i < found->count && work > 0 && !making->failed; i++) {
        struct as_fde fde;
        uint64_t next;
        if (as_frames_read(image, image->address + (uint32_t)found->items[i], &cie, &fde, &next) &&
            fde.start == image->text + (found->items[i] >> 32))
            add_function(making, &cie, &fde, &work);
    }
    if (making->covered > image->text && making->covered < image->text + image->text_size)
        add_row(making, making->covered, as_unwind_special(AS_UNWIND_UNCOVERED));
}

static void point(struct as_unwind_table *table, const struct as_unwind_head *head, size_t bytes)
{
    table->head = head;
    table->rules = (const uint64_t *)(const void *)(head + 1);
    table->blocks = (const struct as_unwind_block *)(const void *)(table->rules + head->rules);
    table->rows = (const struct as_unwind_row *)(const void *)(table->blocks + head->blocks);
    table->bytes = bytes;
}

static size_t bytes_of(uint64_t rules, uint64_t blocks, uint64_t rows)
{
    return sizeof(struct as_unwind_head) + rules * sizeof(uint64_t) + blocks * sizeof(struct as_unwind_block) +
           rows * sizeof(struct as_unwind_row);
}

// Whether a row cannot be in the block that begins with row `first`.
static bool begins_block(const struct table_making *making, size_t row, size_t first)
{
    return row == 0 || row - first == AS_UNWIND_BLOCK_ROWS ||
           making->offsets.items[row] - making->offsets.items[first] > UINT16_MAX;
}

static size_t count_blocks(const struct table_making *making)
{
    size_t blocks = 0, first = 0;
    for (size_t row = 0; row < making->offsets.count; row++) {
        if (!begins_block(making, row, first))
            continue;
        first = row;
        blocks++;
    }
    return blocks;
}

static void put_rows(const struct table_making *making, struct as_unwind_block *blocks, struct as_unwind_row *rows)
{
    size_t first = 0;
    for (size_t row = 0; row < making->offsets.count; row++) {
        if (begins_block(making, row, first)) {
            first = row;
            *blocks++ = (struct as_unwind_block){making->offsets.items[row], (uint32_t)row};
        }
        rows[row].place = (uint16_t)(making->offsets.items[row] - making->offsets.items[first]);
        rows[row].rule = making->of.items[row];
    }
}

// Puts the table together in memory of its own.
static bool finish_table(struct table_making *making, struct as_unwind_table *table)
{
    const struct as_unwind_image *image = making->image;
    size_t rows = making->offsets.count, blocks = count_blocks(making);
    size_t bytes = bytes_of(making->rules.count, blocks, rows);
    if (rows == 0 || making->failed)
        return false;
    struct as_unwind_head *head = as_memory_map(bytes, "an unwind table", NULL);
    if (!head)
        return false;
    memcpy(head->magic, magic, sizeof magic);
    head->version = AS_UNWIND_VERSION;
    head->machine = image->machine;
    head->id_size = image->id_size;
    memcpy(head->id, image->id, sizeof head->id);
    head->text = image->text;
    head->text_size = image->text_size;
    head->source = source_sum(image);
    head->rows = rows;
    head->rules = making->rules.count;
    head->blocks = blocks;
    head->lost = making->lost;
    point(table, head, bytes);
    memcpy(head + 1, making->rules.items, head->rules * sizeof(uint64_t));
    struct as_unwind_block *first = (void *)((uint64_t *)(void *)(head + 1) + head->rules);
    put_rows(making, first, (void *)(first + blocks));
    head->checksum = as_unwind_table_sum(head, bytes);
    return true;
}

bool as_unwind_table_make(struct as_unwind_table *table, const struct as_unwind_image *image)
{
    struct table_making making = {.image = image, .covered = image->text};
    functions found = {0};
    *table = (struct as_unwind_table){0};
    if (!as_unwind_numbers(image->machine) || image->size > UINT32_MAX || image->text_size > UINT32_MAX ||
        image->text + image->text_size < image->text)
        return false;
    making.slots = as_memory_map(SLOTS * sizeof *making.slots, "unwind rules", NULL);
    bool ok = making.slots && list_functions(&found, image);
    if (ok) {
        number_of(&making, as_unwind_special(AS_UNWIND_NONE));
        add_functions(&making, &found);
        ok = finish_table(&making, table);
    }
    as_memory_unmap(making.slots, SLOTS * sizeof *making.slots);
    AS_FREE_VECS(&making, offsets, of, rules);
    as_vec_free(&found);
    return ok;
}

static uint32_t end_of(const struct as_unwind_table *table, uint32_t block)
{
    return (uint32_t)(block + 1 < table->head->blocks ? table->blocks[block + 1].row : table->head->rows);
}

// Whether a block has rows, and these ascend up to the next block's, and name rules that are there.
static bool is_sound_block(const struct as_unwind_table *table, uint32_t block)
{
    const struct as_unwind_head *head = table->head;
    const struct as_unwind_block *b = &table->blocks[block];
    const uint64_t limit = block + 1 < head->blocks ? b[1].offset : head->text_size;
    const uint32_t end = end_of(table, block);
    if (b->row >= end || end > head->rows || table->rows[b->row].place != 0)
        return false;
    bool ok = (uint64_t)b->offset + table->rows[end - 1].place < limit;
    for (uint32_t i = b->row; i < end; i++)
        ok &= table->rows[i].rule < head->rules && (i == b->row || table->rows[i - 1].place < table->rows[i].place);
    return ok;
}

static bool is_sound(const struct as_unwind_table *table)
{
    bool ok = table->blocks[0].row == 0;
    for (uint32_t block = 0; ok && block < table->head->blocks; block++)
        ok = is_sound_block(table, block);
    return ok;
}

bool as_unwind_table_read(struct as_unwind_table *table, const void *memory, size_t bytes,
                          const struct as_unwind_image *image)
{
    const struct as_unwind_head *head = memory;
    *table = (struct as_unwind_table){0};
    if (bytes < sizeof *head || memcmp(head->magic, magic, sizeof magic) != 0 || head->version != AS_UNWIND_VERSION ||
        head->machine != image->machine || head->id_size != image->id_size ||
        memcmp(head->id, image->id, sizeof head->id) != 0 || head->text != image->text ||
        head->text_size != image->text_size || head->rules == 0 || head->rules > MOST_RULES || head->rows == 0 ||
        head->rows > image->text_size || head->blocks == 0 || head->blocks > head->rows ||
        bytes != bytes_of(head->rules, head->blocks, head->rows) || head->source != source_sum(image) ||
        head->checksum != as_unwind_table_sum(head, bytes))
        return false;
    point(table, head, bytes);
    if (is_sound(table))
        return true;
    *table = (struct as_unwind_table){0};
    return false;
}

void as_unwind_table_free(struct as_unwind_table *table)
{
    as_memory_unmap((void *)(uintptr_t)table->head, table->bytes);
    *table = (struct as_unwind_table){0};
}

uint64_t as_unwind_table_rule(const struct as_unwind_table *table, uint64_t offset)
{
    if (!table->head || offset >= table->head->text_size || offset < table->blocks[0].offset)
        return as_unwind_special(AS_UNWIND_UNCOVERED);
    uint32_t block = 0;
    for (uint32_t count = (uint32_t)table->head->blocks; count > 1;) {
        uint32_t half = count / 2;
        if (table->blocks[block + half].offset <= offset)
            block += half;
        count -= half;
    }
    const uint64_t place = offset - table->blocks[block].offset;
    uint32_t row = table->blocks[block].row;
    for (uint32_t count = end_of(table, block) - row; count > 1;) {
        uint32_t half = count / 2;
        if (table->rows[row + half].place <= place)
            row += half;
        count -= half;
    }
    return table->rules[table->rows[row].rule];
}
