// SPDX-License-Identifier: MIT
// What glibc itself has in malloc's chunks: locales, conversions, the name service, the resolver's configuration, the environment, lists
// of functions for exit(), compiled regular expressions. Nearly all of it hangs on libc's own variables, whose words the roots have: from
// there each structure is proven by its own memory (sizes that fit, texts that end where they must, words that lead back), in the
// layouts of glibc 2.31 to 2.44. No symbol is needed. Other chunks are not read, but those of the size of a few structures that a
// program holds itself, where their pointers lead to what only these lead to.
#pragma once

#include "graph/recogniser.h"
#include "recognisers/proof.h"

enum {
    AS_GLIBC_WORD = 8,
    AS_GLIBC_MOST_TEXT = 4096, // bytes of a text, the zero included
    AS_GLIBC_CATEGORIES = 13,  // of a locale, LC_ALL included, which has no data
    AS_GLIBC_LC_ALL = 6,
    AS_GLIBC_STEP = 104, // bytes of struct __gconv_step
};

struct as_glibc {
    struct as_proof proof;
    const struct as_edges *edges;
    const struct as_modules *modules;
    const struct as_module *libc;
    AS_VEC(struct as_root) words; // of libc's variables that lead to chunks, by address
    struct as_number_map
        categories; // by node + 1: of a chunk that was inspected as a locale's data; its category + 2, or 1: it is none
    struct as_number_map steps; // by node + 1: of a proven array of steps: how many
    bool converts;              // libc has loaded modules of conversions
    uint64_t tries;             // reads that are left
};

// FILE, DIR, and what getaddrinfo returns (glibc_candidates.c).
void as_glibc_prove(struct as_proof *p, const struct as_claim *candidate);
// Names what is glibc's. Comes after all others. False: AS_NO_MEMORY.
bool as_glibc_find(const struct as_recogniser_input *in);

// The parts (glibc_common.c). Reads `size` bytes; false: they cannot be read, or too much was asked for.
bool as_glibc_read(struct as_glibc *g, uint64_t address, void *to, size_t size);
// How long the text at an address is, of printable characters; AS_UNKNOWN: there is none, or it has AS_GLIBC_MOST_TEXT bytes or more.
// `text`: room for so many, or NULL.
uint64_t as_glibc_text(struct as_glibc *g, uint64_t address, char *text);
// Gives the node a shape, unless more is known of it.
void as_glibc_give(struct as_glibc *g, uint32_t node, enum as_shape shape);
// The same for the chunk that begins at the text, if it was made for just that text, or `exactly` is false. False: no chunk is.
bool as_glibc_give_text(struct as_glibc *g, uint64_t address, enum as_shape shape, bool exactly);
// Is the address in libc's own variables, or its constant data?
bool as_glibc_is_own(const struct as_glibc *g, uint64_t address);
// Is it that of ld.so's struct link_map of an object?
bool as_glibc_is_link_map(const struct as_glibc *g, uint64_t address);

// Inspects a word of libc's that leads to the beginning of a chunk (glibc_locale.c, glibc_iconv.c, glibc_nss.c). `word`: index.
void as_glibc_locale_match(struct as_glibc *g, size_t word, uint64_t pointer);
void as_glibc_iconv_match(struct as_glibc *g, uint64_t pointer);
void as_glibc_modules_match(struct as_glibc *g, uint64_t pointer);
void as_glibc_nss_match(struct as_glibc *g, uint64_t pointer); // once the modules are known
// Names what getpwnam() and the like have read into their buffers, by the words from `word` on.
void as_glibc_entries_match(struct as_glibc *g, size_t word);

// Inspects a chunk of a program's: what newlocale(), iconv_open(), regcomp() return.
void as_glibc_locale_match_at(struct as_glibc *g, const struct as_used_chunk *chunk);
void as_glibc_iconv_match_at(struct as_glibc *g, const struct as_used_chunk *chunk);
void as_glibc_regex_match_at(struct as_glibc *g, const struct as_used_chunk *chunk);

// An array of so many steps of a conversion. False: it is none.
bool as_glibc_steps(struct as_glibc *g, uint64_t pointer, uint64_t count);
