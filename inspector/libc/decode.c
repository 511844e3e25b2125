// SPDX-License-Identifier: MIT
// The first address that malloc_trim takes is main_arena's: `lea disp(%rip), %reg` on x86-64, `adrp` and `add` on
// aarch64. (mallinfo and malloc_info are no help: what they take first differs.)
#include "libc/sources.h"

enum { MAX_CODE = 512 };

// x86-64 instructions have no fixed length, and none is decoded here but the one searched for; what merely resembles it
// is told apart by what lies at its address.
static bool decode_x86_64(const struct as_object *object, const uint8_t *code, size_t length, uint64_t address,
                          struct as_answer *answer)
{
    for (size_t i = 0; i + 7 <= length; i++) {
        bool wide = code[i] == 0x48 || code[i] == 0x4c; // REX.W, REX.WR
        if (!wide || code[i + 1] != 0x8d || (code[i + 2] & 0xc7) != 0x05)
            continue;
        int32_t displacement = (int32_t)as_load_u32(code + i + 3);
        if (as_accept_main_arena(object, address + i + 7 + (uint64_t)(int64_t)displacement, answer))
            return true;
    }
    return false;
}

static bool decode_aarch64(const struct as_object *object, const uint8_t *code, size_t length, uint64_t address,
                           struct as_answer *answer)
{
    uint64_t pages[32];
    uint32_t known = 0; // registers that hold the page of an adrp
    for (size_t i = 0; i + 4 <= length; i += 4) {
        uint32_t word = as_load_u32(code + i);
        uint32_t to = word & 31;
        uint32_t from = word >> 5 & 31;
        if ((word & 0x9f000000) == 0x90000000) { // adrp
            uint64_t pages_away = (uint64_t)(word >> 5 & 0x7ffff) << 2 | (word >> 29 & 3);
            pages_away = (pages_away ^ 0x100000) - 0x100000; // 21 bits, signed
            pages[to] = ((address + i) & ~(uint64_t)4095) + (pages_away << 12);
            known |= 1u << to;
        } else if ((word & 0xff800000) == 0x91000000) { // add, immediate, 64-bit
            uint64_t immediate = (uint64_t)(word >> 10 & 0xfff) << (word & 1u << 22 ? 12 : 0);
            if ((known >> from & 1) && as_accept_main_arena(object, pages[from] + immediate, answer))
                return true;
        }
    }
    return false;
}

bool as_source_decode(const struct as_object *object, struct as_answer *answer)
{
    const struct as_elf *elf = object->elf;
    Elf64_Sym symbol;
    uint8_t code[MAX_CODE];
    if (!as_elf_dynamic_symbol(elf, "malloc_trim", &symbol))
        return false;
    size_t length = symbol.st_size < sizeof code ? (size_t)symbol.st_size : sizeof code;
    if (!as_elf_read(elf, symbol.st_value, code, length))
        return false;
    return elf->machine == EM_X86_64 ? decode_x86_64(object, code, length, symbol.st_value, answer)
                                     : decode_aarch64(object, code, length, symbol.st_value, answer);
}
