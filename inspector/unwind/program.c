// SPDX-License-Identifier: MIT
#include "unwind/frames.h"
#include "unwind/rule.h"

#include <elf.h>

// The instructions, as DWARF numbers them; the first three have their operand in the low six bits.
enum {
    ADVANCE = 0x40,
    OFFSET = 0x80,
    RESTORE = 0xc0,
    NOP = 0,
    SET_LOC,
    ADVANCE_1,
    ADVANCE_2,
    ADVANCE_4,
    OFFSET_EXTENDED,
    RESTORE_EXTENDED,
    UNDEFINED,
    SAME_VALUE,
    REGISTER,
    REMEMBER,
    RECALL,
    CFA,
    CFA_REGISTER,
    CFA_OFFSET,
    CFA_EXPRESSION,
    EXPRESSION,
    OFFSET_EXTENDED_SIGNED,
    CFA_SIGNED,
    CFA_OFFSET_SIGNED,
    VALUE_OFFSET,
    VALUE_OFFSET_SIGNED,
    VALUE_EXPRESSION,
    RA_SIGNED_WITH_PC = 0x2c,
    RA_SIGNED = 0x2d,
    ARGUMENTS_SIZE = 0x2e,
    OFFSET_NEGATIVE = 0x2f,
};
// These operations of expressions are known: register n + offset, a dereference.
enum { BREG = 0x70, BREG_LAST = 0x8f, DEREF = 0x06 };
enum { MOST_REMEMBERED = 16 };

enum where { KEPT, AT_CFA, AT_FP, GONE, LOST }; // GONE: undefined, as the return address of the outermost frame is

struct place {
    enum where where;
    int64_t offset; // bytes
};

struct cfi_state {
    struct place fp, third, ra;
    uint64_t cfa_register;
    int64_t cfa_offset; // bytes
    int64_t special;    // instead of them, if it is not AS_UNWIND_UNCOVERED
    bool cfa_at;        // the CFA is the word there
};

struct cfi_run {
    const struct as_unwind_numbers *numbers;
    const struct as_cie *cie;
    bool is_x86;
    struct cfi_state state, initial;
    struct cfi_state remembered[MOST_REMEMBERED];
    unsigned remembered_count;
};

// Units of 8 bytes; false where the rule has no place for them.
static bool units(int64_t bytes, int64_t below, int64_t *out)
{
    *out = bytes / 8;
    return bytes % 8 == 0 && *out<below && * out> - below;
}

// A saved register's field, and the flag that it needs.
static int64_t field_of(struct place place, uint64_t by_fp, uint64_t *flags)
{
    int64_t offset;
    if (place.where == KEPT)
        return AS_UNWIND_KEPT;
    if ((place.where != AT_CFA && place.where != AT_FP) || !units(place.offset, AS_UNWIND_OFFSETS, &offset))
        return AS_UNWIND_LOST;
    if (place.where == AT_FP)
        *flags |= by_fp;
    else if (offset == AS_UNWIND_KEPT) // a word of the caller's frame: no compiler saves there
        return AS_UNWIND_LOST;
    return offset;
}

static bool kind_of(const struct cfi_run *run, enum as_unwind_kind *kind)
{
    uint64_t number = run->state.cfa_register;
    bool at = run->state.cfa_at;
    if (number == run->numbers->sp)
        *kind = at ? AS_UNWIND_AT_SP : AS_UNWIND_SP;
    else if (number == run->numbers->fp)
        *kind = at ? AS_UNWIND_AT_FP : AS_UNWIND_FP;
    else if (number == run->numbers->third && run->is_x86 && !at)
        *kind = AS_UNWIND_THIRD;
    else
        return false;
    return true;
}

static uint64_t rule_of(const struct cfi_run *run)
{
    const struct cfi_state *s = &run->state;
    enum as_unwind_kind kind;
    int64_t cfa;
    uint64_t flags = run->cie->is_signal ? AS_UNWIND_EXACT : 0;
    // aarch64's trampoline is the kernel's, whose frame does not vary; libc's on x86-64 says so itself, in an expression.
    if (run->cie->is_signal && (!run->is_x86 || s->special == AS_UNWIND_SIGNAL))
        return as_unwind_special(AS_UNWIND_SIGNAL);
    if (s->ra.where == GONE)
        return as_unwind_special(AS_UNWIND_END);
    if (s->special != AS_UNWIND_UNCOVERED)
        return as_unwind_special(s->special == AS_UNWIND_SIGNAL ? AS_UNWIND_NONE : s->special);
    if (!kind_of(run, &kind) || !units(s->cfa_offset, AS_UNWIND_CFA_OFFSETS, &cfa))
        return as_unwind_special(AS_UNWIND_NONE);
    struct place third = run->is_x86 ? s->third : s->ra;
    bool has_ra =
        run->is_x86 ? s->ra.where == AT_CFA && s->ra.offset == -8 : s->ra.where == KEPT || s->ra.where == AT_CFA;
    if (!has_ra)
        return as_unwind_special(AS_UNWIND_NONE);
    int64_t fp = field_of(s->fp, AS_UNWIND_FP_BY_FP, &flags);
    int64_t saved = field_of(third, AS_UNWIND_THIRD_BY_FP, &flags);
    if (!run->is_x86 && saved == AS_UNWIND_LOST)
        return as_unwind_special(AS_UNWIND_NONE);
    return as_unwind_rule(kind, cfa, fp, saved) | flags;
}

// register + offset, and perhaps a dereference behind it: the one expression that compilers write for what they save and align.
static bool read_address(struct as_bytes b, uint64_t *number, int64_t *offset, bool *at)
{
    uint64_t code = as_bytes_number(&b, 1);
    if (code < BREG || code > BREG_LAST)
        return false;
    *number = code - BREG;
    *offset = as_bytes_sleb(&b);
    *at = as_bytes_left(&b) == 1 && *b.at == DEREF;
    return !b.bad && (*at || as_bytes_left(&b) == 0);
}

// ld's for a PLT: breg7(rsp) 8, breg16(rip) 0, lit15, and, lit n, ge, lit3, shl, plus. Returns n, or -1.
static int plt_bytes(struct as_bytes b)
{
    static const uint8_t plt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22};
    enum { N = 6 };
    if (as_bytes_left(&b) != sizeof plt || memcmp(b.at, plt, N) != 0 ||
        memcmp(b.at + N + 1, plt + N + 1, sizeof plt - N - 1) != 0)
        return -1;
    int n = b.at[N] - plt[N];
    return n >= 0 && n < 16 ? n : -1;
}

static void set_cfa_expression(struct cfi_run *run, struct as_bytes b)
{
    enum { SAVED_RSP = 160 }; // in the kernel's signal frame: struct ucontext's gregs[REG_RSP]
    struct cfi_state *s = &run->state;
    int plt = run->is_x86 ? plt_bytes(b) : -1;
    s->special = plt >= 0 ? AS_UNWIND_PLT + plt : AS_UNWIND_NONE;
    if (plt >= 0 || !read_address(b, &s->cfa_register, &s->cfa_offset, &s->cfa_at))
        return;
    s->special = AS_UNWIND_UNCOVERED;
    if (run->is_x86 && s->cfa_at && s->cfa_register == run->numbers->sp && s->cfa_offset == SAVED_RSP &&
        run->cie->is_signal)
        s->special = AS_UNWIND_SIGNAL;
}

static void set_cfa(struct cfi_run *run, uint64_t number, int64_t offset)
{
    run->state.cfa_register = number;
    run->state.cfa_offset = offset;
    run->state.cfa_at = false;
    run->state.special = AS_UNWIND_UNCOVERED;
}

static void set_place(struct cfi_run *run, struct cfi_state *state, uint64_t number, struct place place)
{
    if (number == run->numbers->fp)
        state->fp = place;
    if (number == run->numbers->third)
        state->third = place;
    if (number == run->cie->ra)
        state->ra = place;
}

static void restore(struct cfi_run *run, uint64_t number)
{
    if (number == run->numbers->fp)
        run->state.fp = run->initial.fp;
    if (number == run->numbers->third)
        run->state.third = run->initial.third;
    if (number == run->cie->ra)
        run->state.ra = run->initial.ra;
}

static struct as_bytes take_block(struct as_bytes *b)
{
    uint64_t size = as_bytes_uleb(b);
    const uint8_t *at = as_bytes_take(b, size);
    return at ? (struct as_bytes){.at = at, .end = at + size}
              : (struct as_bytes){.at = b->end, .end = b->end, .bad = true};
}

static void set_expression(struct cfi_run *run, struct as_bytes *b)
{
    uint64_t number = as_bytes_uleb(b);
    uint64_t by = 0;
    struct place place = {0};
    bool at = false;
    bool known = read_address(take_block(b), &by, &place.offset, &at) && !at && by == run->numbers->fp;
    place.where = known ? AT_FP : LOST;
    set_place(run, &run->state, number, place);
}

// Products of what is not trusted wrap round, and are then judged like any other offset.
static int64_t scaled(uint64_t factor, int64_t by)
{
    return (int64_t)(factor * (uint64_t)by);
}

// What says where a register is. False: it is no such instruction.
static bool run_register(struct cfi_run *run, struct as_bytes *b, uint8_t code)
{
    int64_t align = run->cie->data_align;
    uint64_t number = code & 0x3f;
    struct place place = {.where = AT_CFA};
    if ((code & 0xc0) == OFFSET) {
        place.offset = scaled(as_bytes_uleb(b), align);
    } else if ((code & 0xc0) == RESTORE) {
        restore(run, number);
        return true;
    } else if (code == RESTORE_EXTENDED) {
        restore(run, as_bytes_uleb(b));
        return true;
    } else if (code == EXPRESSION) {
        set_expression(run, b);
        return true;
    } else if (code == OFFSET_EXTENDED || code == OFFSET_EXTENDED_SIGNED || code == OFFSET_NEGATIVE) {
        number = as_bytes_uleb(b);
        uint64_t factor = as_bytes_leb(b, code == OFFSET_EXTENDED_SIGNED);
        place.offset = scaled(code == OFFSET_NEGATIVE ? 0 - factor : factor, align);
    } else if (code == UNDEFINED || code == SAME_VALUE) {
        number = as_bytes_uleb(b);
        place.where = code == UNDEFINED ? GONE : KEPT;
    } else if (code == REGISTER || code == VALUE_OFFSET || code == VALUE_OFFSET_SIGNED) {
        number = as_bytes_uleb(b);
        as_bytes_uleb(b);
        place.where = LOST;
    } else if (code == VALUE_EXPRESSION) {
        number = as_bytes_uleb(b);
        take_block(b);
        place.where = LOST;
    } else {
        return false;
    }
    set_place(run, &run->state, number, place);
    return true;
}

// What says where the CFA is, and the rest. False: damage, or an instruction that is not known.
static bool run_other(struct cfi_run *run, struct as_bytes *b, uint8_t code)
{
    int64_t align = run->cie->data_align;
    uint64_t number;
    switch (code) {
    case NOP:
    case RA_SIGNED:
    case RA_SIGNED_WITH_PC: // signs are stripped anyway
        return true;
    case ARGUMENTS_SIZE:
        as_bytes_uleb(b);
        return true;
    case REMEMBER:
        if (run->remembered_count == MOST_REMEMBERED)
            return false;
        run->remembered[run->remembered_count++] = run->state;
        return true;
    case RECALL:
        if (run->remembered_count == 0)
            return false;
        run->state = run->remembered[--run->remembered_count];
        return true;
    case CFA:
        number = as_bytes_uleb(b);
        set_cfa(run, number, (int64_t)as_bytes_uleb(b));
        return true;
    case CFA_SIGNED:
        number = as_bytes_uleb(b);
        set_cfa(run, number, scaled((uint64_t)as_bytes_sleb(b), align));
        return true;
    case CFA_REGISTER:
        set_cfa(run, as_bytes_uleb(b), run->state.cfa_offset);
        return true;
    case CFA_OFFSET:
        set_cfa(run, run->state.cfa_register, (int64_t)as_bytes_uleb(b));
        return true;
    case CFA_OFFSET_SIGNED:
        set_cfa(run, run->state.cfa_register, scaled((uint64_t)as_bytes_sleb(b), align));
        return true;
    case CFA_EXPRESSION:
        set_cfa_expression(run, take_block(b));
        return true;
    default:
        return false;
    }
}

// How far an instruction advances the address, if it does.
static bool advance(const struct cfi_run *run, struct as_bytes *b, uint8_t code, uint64_t *by)
{
    if ((code & 0xc0) == ADVANCE)
        *by = code & 0x3f;
    else if (code >= ADVANCE_1 && code <= ADVANCE_4)
        *by = as_bytes_number(b, (size_t)1 << (code - ADVANCE_1));
    else
        return false;
    *by *= run->cie->code_align;
    return true;
}

static bool run_one(struct cfi_run *run, struct as_bytes *b, uint8_t code)
{
    return (run_register(run, b, code) || run_other(run, b, code)) && !b->bad;
}

void as_program_run(const struct as_unwind_image *image, const struct as_cie *cie, const struct as_fde *fde,
                    uint64_t *work, as_unwind_take_rule *take, void *context)
{
    struct cfi_run run;
    run.numbers = as_unwind_numbers(image->machine); // the caller has asked for it before
    run.cie = cie;
    run.is_x86 = image->machine == EM_X86_64;
    run.state = (struct cfi_state){.cfa_register = run.numbers->sp};
    run.remembered_count = 0;
    uint64_t at = fde->start;
    uint64_t cost = 16 + as_bytes_left(&cie->program) + as_bytes_left(&fde->program);
    bool ok = cost <= *work;
    *work -= ok ? cost : *work;
    struct as_bytes b = cie->program;
    while (ok && as_bytes_left(&b) > 0) {
        uint8_t code = (uint8_t)as_bytes_number(&b, 1);
        ok = run_one(&run, &b, code); // an advance has no place in there
    }
    run.initial = run.state;
    b = fde->program;
    while (ok && as_bytes_left(&b) > 0) {
        uint64_t by;
        uint8_t code = (uint8_t)as_bytes_number(&b, 1);
        if (!advance(&run, &b, code, &by)) {
            ok = run_one(&run, &b, code);
            continue;
        }
        ok = !b.bad && by < fde->end - at;
        if (by == 0 || !ok)
            continue;
        take(context, at, rule_of(&run));
        at += by;
    }
    take(context, at, ok ? rule_of(&run) : as_unwind_special(AS_UNWIND_NONE));
}
