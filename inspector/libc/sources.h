// SPDX-License-Identifier: MIT
// The sources that can say where a libc's main_arena and mp_ are and how they are laid out. Each reads one ELF
// object and answers in that object's own addresses; as_object asks them, find.c proves what they say.
#pragma once

#include "libc/elf.h"
#include "libc/libc.h"

// One source's answer.
struct as_answer {
    enum as_layout_source source;
    uint64_t main_arena;
    uint64_t mp;                   // AS_UNKNOWN when it could not be told
    uint32_t state_rows, par_rows; // rows of the layout table that the evidence admits; 0: none of them
    bool has_tcache;               // whether mp_ has the tcache fields
    struct as_layout layout;       // composed from the above, or from DWARF alone
    uint64_t tcache, thread_arena; // offsets in the object's TLS block; AS_UNKNOWN when not known
};

// What the strings of a libc's code say of it.
struct as_banner {
    char version[16];  // "2.36", from the banner; "" when there is none
    bool complete;     // malloc's own messages were seen, so a message that was not seen is not there
    bool safe_linking; // a message that came with safe-linking (2.32)
    bool fastbin_size; // a message that 2.42 alone has
};

// An ELF object that may hold a malloc, and what is needed to ask about it.
struct as_object {
    const struct as_elf *elf;
    struct as_elf debug;       // the separate debug file; debug.fd is -1 when there is none
    struct as_elf_image image; // empty for an object that is read from memory
    char left_out[200];        // why its debug information was not read, though there is some; "": it was not left out
    bool has_text;             // the text has been read: only once a source has found a malloc
    struct as_banner text;
};

// Prepares to ask. `roots` are handles of root directories below which debug files are searched for (a negative one ends the
// list), `path` is the object's own path below them ("" when it has none). Only memory can run out.
bool as_object_open(struct as_object *object, const struct as_elf *elf, const int *roots, const char *path,
                    struct as_error *err);
void as_object_close(struct as_object *object);

// Asks one source. False when it has no answer; else answer->layout is composed from what the object itself shows.
bool as_object_ask(struct as_object *object, enum as_layout_source source, struct as_answer *answer);

// Composes answer->layout again, with evidence from live memory: rows, the strongest first.
void as_object_compose(const struct as_banner *text, const uint32_t *live, size_t live_count, struct as_answer *answer);

// The sources. Each leaves what it cannot tell as the caller set it.
bool as_source_dwarf(struct as_object *object, struct as_answer *answer);
bool as_source_symtab(const struct as_object *object, struct as_answer *answer);
bool as_source_relocation(const struct as_object *object, struct as_answer *answer);
bool as_source_decode(const struct as_object *object, struct as_answer *answer);

// Finds the code of malloc, by the object's symbols; sets malloc_start and its neighbours, to 0 when they are not known.
void as_code_find(const struct as_elf *elf, uint64_t base, struct as_libc *libc);

// Do these words stand in the object's constant data (the first 64 MiB of each segment)?
bool as_text_has(const struct as_elf *elf, const char *words);

// Reads the banner and malloc's messages from the object's constant data.
void as_banner_read(struct as_banner *text, const struct as_elf *elf);
// The same, once for an object.
const struct as_banner *as_object_banner(struct as_object *object);

// Opens the separate debug file of an object: by build-id below usr/lib/debug, by .gnu_debuglink, or in the cache of debuginfod's
// client; only one whose own build-id is the same. -1 when there is none.
int as_debug_file_open(const struct as_elf *elf, const int *roots, const char *path);
// The same of an object of a target, which may have a root directory of its own.
int as_debug_file_of(const struct as_elf *elf, struct as_target *t, const char *path);

// Opens the file that several debug files share (dwz makes it), by what .gnu_debugaltlink of one says: below usr/lib/debug,
// and only one whose build-id is the same. -1 when there is none.
int as_debug_file_open_shared(const struct as_elf *debug, const int *roots);

// Finds the one place in the data image that resembles mp_, and which rows it admits.
bool as_image_find_par(const struct as_elf_image *image, struct as_answer *answer);

// Whether an address can be main_arena: whole in the writable data, and zero there but for what the linker put in.
// Sets answer->main_arena and state_rows.
bool as_accept_main_arena(const struct as_object *object, uint64_t address, struct as_answer *answer);

// How far the object's TLS block lies from the thread pointer, read off a relocation that ld.so has resolved in the
// target, or computed for a static program. AS_UNKNOWN when neither can be done.
uint64_t as_tls_block_offset(const struct as_elf *elf, struct as_target *t, uint64_t base);
