// SPDX-License-Identifier: MIT
#include "inject/entry/instruction.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LENGTH = 15 };

// What follows an opcode.
enum {
    NO = 0, // not known
    N,      // nothing
    M,      // an operand (ModRM)
    B,      // a byte
    Z,      // 32 bits, or 16 with a prefix
    MB,     // an operand and a byte
    MZ,
    V, // 64 bits with REX.W, else as Z
    J, // a target, 8 bits
    K, // a target, 32 bits
    G, // group 3: as M, of which the first two have B or Z besides
};

// A row for each 16 opcodes.
static const uint8_t first[256] = {
    M,  M,  M,  M,  B,  Z,  NO, NO, M,  M,  M,  M,  B,  Z,  NO, NO, // 00
    M,  M,  M,  M,  B,  Z,  NO, NO, M,  M,  M,  M,  B,  Z,  NO, NO, // 10
    M,  M,  M,  M,  B,  Z,  NO, NO, M,  M,  M,  M,  B,  Z,  NO, NO, // 20
    M,  M,  M,  M,  B,  Z,  NO, NO, M,  M,  M,  M,  B,  Z,  NO, NO, // 30
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, // 40: REX
    N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  // 50
    NO, NO, NO, M,  NO, NO, NO, NO, Z,  MZ, B,  MB, NO, NO, NO, NO, // 60
    J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  J,  // 70
    MB, MZ, NO, MB, M,  M,  M,  M,  M,  M,  M,  M,  NO, M,  NO, NO, // 80
    N,  N,  N,  N,  N,  N,  N,  N,  N,  N,  NO, NO, NO, NO, NO, NO, // 90
    NO, NO, NO, NO, N,  N,  N,  N,  B,  Z,  N,  N,  N,  N,  N,  N,  // a0
    B,  B,  B,  B,  B,  B,  B,  B,  V,  V,  V,  V,  V,  V,  V,  V,  // b0
    MB, MB, NO, N,  NO, NO, MB, MZ, NO, N,  NO, NO, N,  NO, NO, NO, // c0
    M,  M,  M,  M,  NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, // d0
    J,  J,  J,  J,  NO, NO, NO, NO, K,  K,  NO, J,  NO, NO, NO, NO, // e0
    NO, NO, NO, NO, N,  NO, G,  G,  N,  N,  NO, NO, N,  N,  M,  M,  // f0
};

// Behind 0f.
static const uint8_t second[256] = {
    NO, NO, NO, NO, NO, N,  NO, NO, NO, NO, NO, N,  NO, M,  NO, NO, // 00
    M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // 10
    NO, NO, NO, NO, NO, NO, NO, NO, M,  M,  M,  M,  M,  M,  M,  M,  // 20
    NO, N,  NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, // 30
    M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // 40
    M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // 50
    M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // 60
    MB, MB, MB, MB, M,  M,  M,  N,  NO, NO, NO, NO, M,  M,  M,  M,  // 70
    K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  K,  // 80
    M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // 90
    NO, NO, N,  M,  MB, M,  NO, NO, NO, NO, NO, M,  MB, M,  M,  M,  // a0
    M,  M,  NO, M,  NO, NO, M,  M,  M,  NO, MB, M,  M,  M,  M,  M,  // b0
    M,  M,  MB, M,  MB, MB, MB, M,  N,  N,  N,  N,  N,  N,  N,  N,  // c0
    NO, M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // d0
    M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  // e0
    NO, M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  M,  NO, // f0
};

struct decoding {
    const uint8_t *code;
    size_t length, at;
    bool wide, narrow, segment, other; // REX.W; 66; fs or gs; f0, f2 or f3
};

static int32_t signed_at(const uint8_t *bytes)
{
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

// The operand: returns its ModRM byte; -1: it does not end there.
static int read_operand(struct decoding *r, struct as_instruction *out)
{
    if (r->at >= r->length)
        return -1;
    uint8_t modrm = r->code[r->at++];
    unsigned mode = modrm >> 6, base = modrm & 7;
    size_t displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if (mode != 3 && base == 4) {
        if (r->at >= r->length)
            return -1;
        displacement = mode == 0 && (r->code[r->at] & 7) == 5 ? 4 : displacement;
        r->at++;
    } else if (mode == 0 && base == 5) {
        displacement = 4;
        out->relative = (uint8_t)r->at;
        out->displacement = r->at + 4 <= r->length ? signed_at(r->code + r->at) : 0;
    }
    r->at += displacement;
    return modrm;
}

static void read_prefixes(struct decoding *r)
{
    for (; r->at < r->length; r->at++) {
        uint8_t byte = r->code[r->at];
        r->narrow |= byte == 0x66;
        r->segment |= byte == 0x64 || byte == 0x65;
        r->other |= byte == 0xf0 || byte == 0xf2 || byte == 0xf3;
        // 2e and 3e mean nothing any more (but in long nops, and before a jump through a register).
        if (byte != 0x66 && byte != 0x64 && byte != 0x65 && byte != 0xf0 && byte != 0xf2 && byte != 0xf3 &&
            byte != 0x2e && byte != 0x3e)
            break;
    }
    if (r->at < r->length && r->code[r->at] >> 4 == 4) // REX stands last
        r->wide = r->code[r->at++] & 8;
}

static bool read_target(struct decoding *r, size_t size, struct as_instruction *out)
{
    if (r->narrow || r->at + size > r->length)
        return false;
    out->displacement = size == 1 ? (int8_t)r->code[r->at] : signed_at(r->code + r->at);
    r->at += size;
    if (out->second || out->opcode >> 4 == 7)
        out->kind = AS_INSTRUCTION_BRANCH;
    else if (out->opcode == 0xe8)
        out->kind = AS_INSTRUCTION_CALL;
    else
        out->kind = out->opcode >= 0xe9 ? AS_INSTRUCTION_JUMP : AS_INSTRUCTION_LOOP;
    out->movable = (out->kind == AS_INSTRUCTION_BRANCH || out->kind == AS_INSTRUCTION_JUMP) && !r->other;
    return true;
}

static bool leaves(const struct as_instruction *i, int modrm)
{
    if (i->second)
        return i->opcode == 0x05 || i->opcode == 0x0b; // syscall, ud2
    unsigned operation = (unsigned)modrm >> 3 & 7;
    return i->opcode == 0xc3 || i->opcode == 0xcc || i->opcode == 0xf4 ||
           (i->opcode == 0xff && operation >= 2 && operation <= 5);
}

// What compilers begin functions with: push, mov, lea, arithmetic on registers and memory, tests, and nothing that changes memory.
static bool is_movable(const struct decoding *r, const struct as_instruction *i, int modrm)
{
    bool of_register = modrm >> 6 == 3;
    if (r->other || i->kind != AS_INSTRUCTION_PLAIN)
        return false;
    if (i->second)
        return i->opcode == 0x1f || i->opcode == 0xb6 || i->opcode == 0xb7 || i->opcode == 0xbe || i->opcode == 0xbf ||
               i->opcode >> 4 == 4;
    switch (i->opcode) {
    case 0x8b: // mov from memory
    case 0x8d: // lea
    case 0x63: // movslq
    case 0x38: // cmp
    case 0x39:
    case 0x3a:
    case 0x3b:
    case 0x3c:
    case 0x3d:
    case 0x84: // test
    case 0x85:
    case 0xa8:
    case 0xa9:
    case 0x90: // nop
    case 0x99: // cqto
    case 0x03: // add, or, and, sub, xor, into a register
    case 0x0b:
    case 0x23:
    case 0x2b:
    case 0x33:
        return true;
    case 0x01: // the same the other way round
    case 0x09:
    case 0x21:
    case 0x29:
    case 0x31:
    case 0x89: // mov
    case 0xc1: // shifts
    case 0xd1:
    case 0xc7: // mov of a number
    case 0xf7: // mul and its neighbours
        return of_register;
    case 0x80: // with a number: cmp, else only of registers
    case 0x81:
    case 0x83:
        return of_register || (modrm >> 3 & 7) == 7;
    default:
        return i->opcode >> 3 == 0x50 >> 3 || i->opcode >> 3 == 0xb8 >> 3; // push, mov of a number
    }
}

static bool read_rest(struct decoding *r, uint8_t form, struct as_instruction *out)
{
    int modrm = 0;
    size_t number = r->narrow ? 2 : 4;
    if (form == J || form == K)
        return read_target(r, form == J ? 1 : 4, out);
    if ((form == M || form == MB || form == MZ || form == G) && (modrm = read_operand(r, out)) < 0)
        return false;
    if (form == B || form == MB)
        r->at += 1;
    else if (form == Z || form == MZ || form == V)
        r->at += form == V && r->wide ? 8 : number;
    else if (form == G && (modrm >> 3 & 7) < 2)
        r->at += out->opcode == 0xf6 ? 1 : number;
    out->kind = leaves(out, modrm) ? AS_INSTRUCTION_OTHER : AS_INSTRUCTION_PLAIN;
    out->movable = is_movable(r, out, modrm);
    return true;
}

bool as_instruction_read(const uint8_t *code, size_t length, struct as_instruction *out)
{
    struct decoding r = {.code = code, .length = length < MOST_LENGTH ? length : MOST_LENGTH};
    *out = (struct as_instruction){0};
    read_prefixes(&r);
    if (r.at >= r.length)
        return false;
    out->opcode = code[r.at++];
    uint8_t form = first[out->opcode];
    if (out->opcode == 0x0f) {
        if (r.at >= r.length)
            return false;
        out->opcode = code[r.at++];
        out->second = true;
        form = second[out->opcode];
    }
    if (form == NO || !read_rest(&r, form, out) || r.at > r.length)
        return false;
    out->length = (uint8_t)r.at;
    return true;
}

// --- Elsewhere --------------------------------------------------------------------------------------------------------

enum { MOST_MOVED = 64 };

struct moving {
    uint64_t from, from_end, to;
    size_t size, used;
    uint8_t out[MOST_MOVED];
};

// Writes a distance of 32 bits. False: it is too far.
static bool put_distance(uint8_t *at, uint64_t target, uint64_t next)
{
    int64_t distance = (int64_t)(target - next);
    int32_t value = (int32_t)distance;
    memcpy(at, &value, sizeof value);
    return value == distance;
}

// jmp, or a conditional jump if `condition` is not 0xe9.
static bool put_jump(struct moving *m, uint8_t condition, uint64_t target)
{
    size_t length = condition == 0xe9 ? 5 : 6;
    if (m->size - m->used < length)
        return false;
    uint8_t *at = m->out + m->used;
    if (condition != 0xe9)
        *at++ = 0x0f;
    *at++ = condition;
    m->used += length;
    return put_distance(at, target, m->to + m->used);
}

static bool move_one(struct moving *m, const uint8_t *code, const struct as_instruction *i, uint64_t next)
{
    uint64_t target = next + (uint64_t)(int64_t)i->displacement;
    if (i->kind != AS_INSTRUCTION_PLAIN) {
        uint8_t condition = i->kind == AS_INSTRUCTION_JUMP ? 0xe9 : (uint8_t)(0x80 | (i->opcode & 15));
        return (target < m->from || target >= m->from_end) && put_jump(m, condition, target);
    }
    if (m->size - m->used < i->length)
        return false;
    uint8_t *at = m->out + m->used;
    memcpy(at, code, i->length);
    m->used += i->length;
    return i->relative == 0 || put_distance(at + i->relative, target, m->to + m->used);
}

size_t as_instructions_move(const uint8_t *code, size_t length, uint64_t from, uint64_t to, uint8_t *out, size_t size,
                            char *why, size_t why_size)
{
    struct moving m = {
        .from = from, .from_end = from + length, .to = to, .size = size < MOST_MOVED ? size : MOST_MOVED};
    struct as_instruction i = {0};
    for (size_t at = 0; at < length; at += i.length) {
        bool known = as_instruction_read(code + at, length - at, &i);
        if (!known || !i.movable || !move_one(&m, code + at, &i, from + at + i.length)) {
            snprintf(why, why_size, "its instruction at +%zu (%02x %02x ...) %s", at, code[at],
                     at + 1 < length ? code[at + 1] : 0,
                     !known      ? "is not known"
                     : i.movable ? "leads to where the jump would stand, or too far"
                                 : "is not one of those that may be moved");
            return 0;
        }
    }
    if (i.kind != AS_INSTRUCTION_JUMP && !put_jump(&m, 0xe9, from + length)) {
        snprintf(why, why_size, "it is too far away");
        return 0;
    }
    memcpy(out, m.out, m.used);
    return m.used;
}
