// SPDX-License-Identifier: MIT
// What an iseq is recognised by: its label, its file and its lines, by their contents. Its address says nothing: the next one may be made
// where one has died. To read all of that for each frame of each allocation would take too long. So it is remembered by the address, and
// believed until the next garbage collection, and while the iseq's body has the same pointers and the same place in the source.
#include "recorder/ruby/ruby.h"

enum {
    MOST_TEXT = 1 << 12,  // bytes of a name
    MOST_LINES = 1 << 20, // of a table of lines
    MOST_WORDS = 1 << 22, // of bytecode
    ISEQ_READ = 24,
    STRING_READ = 32, // of a String, and of an Array with two elements
};
enum { WORD = 64 };
enum { LENGTH = 16, ELSEWHERE = 24, LENGTH_SHIFT = 14, LENGTH_IN_FLAGS = 31 }; // of a String
enum { FIRST = 16, SECOND = 24 };                                              // of an Array that has them in itself

bool as_cruby_text(uintptr_t string, struct as_cruby_text *text)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    if (string % sizeof string != 0 || !as_inner_readable(string, STRING_READ))
        return false;
    uintptr_t flags = as_inner_word(string);
    bool elsewhere = flags & AS_CRUBY_ELSEWHERE;
    bool in_flags = !elsewhere && l->text == LENGTH;
    text->length = in_flags ? flags >> LENGTH_SHIFT & LENGTH_IN_FLAGS : as_inner_word(string + LENGTH);
    text->at = elsewhere ? as_inner_word(string + ELSEWHERE) : string + l->text;
    return (flags & AS_CRUBY_TYPE) == AS_CRUBY_STRING && text->length <= MOST_TEXT &&
           as_inner_readable(text->at, text->length + 1);
}

bool as_cruby_file(uintptr_t body, struct as_cruby_text *text)
{
    uintptr_t path = as_inner_word(body + as_cruby.layout.path);
    if (path % sizeof path != 0 || !as_inner_readable(path, STRING_READ))
        return false;
    uintptr_t flags = as_inner_word(path);
    if ((flags & AS_CRUBY_TYPE) != AS_CRUBY_ARRAY)
        return as_cruby_text(path, text);
    return (flags & AS_CRUBY_ELSEWHERE) != 0 && // an Array says the opposite of a String: in itself
           (as_cruby_text(as_inner_word(path + SECOND), text) || as_cruby_text(as_inner_word(path + FIRST), text));
}

bool as_cruby_lines(uintptr_t body, struct as_cruby_text *lines, struct as_cruby_text *positions)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    uintptr_t words = as_inner_half(body + AS_CRUBY_SIZE), count = as_inner_half(body + l->line_count);
    if (words == 0 || words > MOST_WORDS || count == 0 || count > words || count * l->line_size > MOST_LINES)
        return false;
    uintptr_t plain = (words < AS_CRUBY_PLAIN ? words + AS_CRUBY_PLAIN_EACH - 1 : AS_CRUBY_PLAIN) / AS_CRUBY_PLAIN_EACH;
    uintptr_t blocks = words < AS_CRUBY_PLAIN ? 0 : (words - AS_CRUBY_PLAIN + AS_CRUBY_BLOCK - 1) / AS_CRUBY_BLOCK;
    *lines = (struct as_cruby_text){as_inner_word(body + l->lines), count * l->line_size};
    *positions = (struct as_cruby_text){as_inner_word(body + l->positions),
                                        plain * sizeof(uint64_t) + blocks * AS_CRUBY_BLOCK_BYTES};
    return lines->at % sizeof(uint32_t) == 0 && positions->at % sizeof(uint64_t) == 0 &&
           as_inner_readable(lines->at, lines->length) && as_inner_readable(positions->at, positions->length);
}

uint64_t as_cruby_rank(const struct as_cruby_text *positions, uint64_t word)
{
    if (word < AS_CRUBY_PLAIN)
        return as_inner_word(positions->at + word / AS_CRUBY_PLAIN_EACH * sizeof(uint64_t)) >>
                   word % AS_CRUBY_PLAIN_EACH * AS_CRUBY_PLAIN_BITS &
               ((1 << AS_CRUBY_PLAIN_BITS) - 1);
    uintptr_t block = positions->at + AS_CRUBY_PLAIN / AS_CRUBY_PLAIN_EACH * sizeof(uint64_t) +
                      (word - AS_CRUBY_PLAIN) / AS_CRUBY_BLOCK * AS_CRUBY_BLOCK_BYTES;
    uintptr_t bit = (word - AS_CRUBY_PLAIN) % AS_CRUBY_BLOCK;
    uint64_t bits = as_inner_word(block + AS_CRUBY_BLOCK_WORDS + bit / WORD * sizeof(uint64_t))
                    << (WORD - 1 - bit % WORD);
    uint64_t before =
        bit < WORD ? 0 : as_inner_word(block + AS_CRUBY_BLOCK_RANKS) >> (bit / WORD - 1) * AS_CRUBY_RANK_BITS;
    return as_inner_half(block) + (before & ((1 << AS_CRUBY_RANK_BITS) - 1)) + (uint64_t)__builtin_popcountll(bits);
}

// Up to its last word, an iseq has as many lines' beginnings as the table of lines says.
static bool has_each_line(uintptr_t body, const struct as_cruby_text *lines, const struct as_cruby_text *positions)
{
    uint32_t words = as_inner_half(body + AS_CRUBY_SIZE);
    return as_cruby_rank(positions, words - 1) == lines->length / as_cruby.layout.line_size;
}

static void remember(uintptr_t iseq, uintptr_t body, uint64_t gcs, uint64_t identity)
{
    struct as_cruby_known *known = as_cruby_known_at(iseq);
    atomic_store_explicit(&known->iseq, 0, memory_order_relaxed);
    atomic_store_explicit(&known->body, body, memory_order_relaxed);
    atomic_store_explicit(&known->identity, identity, memory_order_relaxed);
    atomic_store_explicit(&known->check, as_cruby_print_of(body) ^ identity, memory_order_relaxed);
    atomic_store_explicit(&known->iseq, as_recorder_mix_in(gcs, iseq), memory_order_release);
}

bool as_cruby_identify(uintptr_t iseq, uint64_t gcs, uint64_t *identity)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    struct as_cruby_text label, file, lines, positions;
    if (iseq % sizeof iseq != 0 || !as_inner_readable(iseq, ISEQ_READ))
        return false;
    uintptr_t flags = as_inner_word(iseq), body = as_inner_word(iseq + AS_CRUBY_BODY);
    if ((flags & AS_CRUBY_TYPE) != AS_CRUBY_IMEMO ||
        (flags >> AS_CRUBY_IMEMO_SHIFT & AS_CRUBY_IMEMO_TYPE) != AS_CRUBY_ISEQ || body % sizeof body != 0 ||
        !as_inner_readable(body, l->body_read) || !as_cruby_text(as_inner_word(body + l->label), &label) ||
        !as_cruby_file(body, &file) || !as_cruby_lines(body, &lines, &positions) ||
        !has_each_line(body, &lines, &positions))
        return false;
    uint64_t hash = as_inner_hash(as_inner_word(body + l->first_line), label.at, label.length);
    hash = as_inner_hash(hash, file.at, file.length);
    hash = as_inner_hash(hash, lines.at, lines.length);
    *identity = as_inner_hash(hash, positions.at, positions.length);
    remember(iseq, body, gcs, *identity);
    return true;
}
