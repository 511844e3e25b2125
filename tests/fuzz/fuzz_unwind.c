// SPDX-License-Identifier: MIT
// The unwinder: any bytes as the readable segment of a module, and as a stack. The first eight say where .eh_frame_hdr is in the
// segment, whose machine it is, and from which register on the stack is unwound.
#include "fuzz.h"

#include "unwind/rule.h"
#include "unwind/unwind.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 8, ADDRESS = 1 << 24, WORDS = 64, MOST = 128 };

// Whatever the stack holds, a walk reads nothing outside, ends, and comes nearer to the end with each frame.
static void unwind(const struct as_unwind_table *table, const uint8_t *data, size_t size)
{
    static _Alignas(16) uint8_t memory[sizeof(struct as_unwind_modules) + sizeof(struct as_unwind_module)];
    struct as_unwind_modules *list = (struct as_unwind_modules *)(void *)memory;
    struct as_unwind_module *module = list->items;
    uintptr_t *stack = calloc(WORDS, sizeof *stack);
    uintptr_t pcs[MOST];
    uintptr_t slots[MOST];
    bool complete;
    fuzz_check(stack != NULL, "no memory");
    list->generation = 1;
    list->count = 1;
    *module =
        (struct as_unwind_module){.start = 4096, .end = 4096 + (uintptr_t)table->head->text_size, .table = *table};
    for (size_t i = 0; i < WORDS && 2 * i + 2 <= size; i++) { // addresses of code, or of the stack
        uint16_t word;
        memcpy(&word, data + size - 2 * i - 2, 2);
        stack[i] = word & 1 ? (uintptr_t)(stack + (word >> 1) % (WORDS + 2)) : module->start + (word >> 1) * 16;
    }
    struct as_unwind_registers start = {
        .pc = stack[0], .sp = (uintptr_t)stack, .fp = stack[1], .third = stack[2], .exact = data[7] & 1};
    struct as_unwind_stacks stacks = {.end = (uintptr_t)(stack + WORDS)};
    size_t count = as_unwind_stack(list, &start, &stacks, NULL, pcs, slots, MOST, &complete);
    fuzz_check(count <= WORDS + 1, "more frames than words");
    for (size_t i = 0; i < count; i++)
        fuzz_check(!slots[i] || (slots[i] >= start.sp && slots[i] < stacks.end), "a slot outside of the stack");
    free(stack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_unwind_table table;
    struct as_unwind_table again;
    if (size < HEAD)
        return 0;
    uint32_t header;
    memcpy(&header, data, sizeof header);
    struct as_unwind_image image = {.bytes = data + HEAD,
                                    .size = size - HEAD,
                                    .address = ADDRESS,
                                    .header = ADDRESS + header % (size - HEAD + 1),
                                    .header_size = size,
                                    .text_size = 2 * ADDRESS,
                                    .machine = data[4] & 1 ? EM_AARCH64 : EM_X86_64};
    if (!as_unwind_table_make(&table, &image))
        return 0;
    fuzz_check(as_unwind_table_read(&again, table.head, table.bytes, &image), "a table that is not read again");
    if (image.machine == EM_X86_64)
        unwind(&table, data, size);
    as_unwind_table_free(&table);
    return 0;
}
