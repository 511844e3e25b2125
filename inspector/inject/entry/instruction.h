// SPDX-License-Identifier: MIT
// The instructions of x86-64 at the beginning of a function: how long each is, where it leads to, and which can be executed elsewhere.
// It knows what compilers write into functions of malloc, not all that there is. Pure bytes: it runs on any machine.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum as_instruction_kind {
    AS_INSTRUCTION_PLAIN = 1,
    AS_INSTRUCTION_BRANCH, // a conditional jump with a target
    AS_INSTRUCTION_JUMP,   // a jump with a target: what follows is not reached from here
    AS_INSTRUCTION_CALL,   // with a target
    AS_INSTRUCTION_LOOP,   // loop, jrcxz: a conditional jump that reaches 127 bytes and no more
    AS_INSTRUCTION_OTHER,  // it leaves the function in another way: ret, a jump or call through a register, a trap
};

struct as_instruction {
    enum as_instruction_kind kind;
    uint8_t length;
    uint8_t opcode; // its last byte; behind 0f: `second`
    bool second;
    uint8_t relative; // offset of an operand of 32 bits that is relative to the next instruction (%rip); 0: it has none
    int32_t displacement; // of a target, or of this operand: from the next instruction
    bool movable;         // it does the same elsewhere, but for what is relative: only what functions begin with
};

// Reads one instruction at the beginning of the bytes. False: it is not known, or does not end there.
bool as_instruction_read(const uint8_t *code, size_t length, struct as_instruction *out);

// Writes what the instructions of `length` bytes do, which stand at `from`, to be executed at `to`, and goes on behind them. Returns how
// many bytes that takes; 0: it cannot be done, and `why` says which of them is in the way. No more than `size` bytes are written.
size_t as_instructions_move(const uint8_t *code, size_t length, uint64_t from, uint64_t to, uint8_t *out, size_t size,
                            char *why, size_t why_size);

static inline bool as_is_endbr64(const uint8_t *code, size_t length)
{
    return length >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa;
}
