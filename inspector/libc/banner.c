// SPDX-License-Identifier: MIT
// What a libc's strings say: its banner, and those of malloc's messages that came or went with a change of layout. They
// outlive stripping, and a message follows the code into a backport where the version does not.
#include "libc/sources.h"

#include <string.h>

enum { STEP = 256 * 1024, OVERLAP = 256 };

// The longest stretch of constant data that is searched: a static program's may be of any size.
#define MAX_SEARCH ((uint64_t)64 << 20)

static void read_version(struct as_banner *text, const char *banner, size_t length)
{
    static const char before[] = " version ";
    const char *at = memmem(banner, length, before, sizeof before - 1);
    if (!at)
        return;
    at += sizeof before - 1;
    size_t count = 0;
    while (count < sizeof text->version - 1 && at + count < banner + length &&
           ((at[count] >= '0' && at[count] <= '9') || at[count] == '.'))
        count++;
    // The sentence ends in a full stop of its own.
    while (count && at[count - 1] == '.')
        count--;
    memcpy(text->version, at, count);
    text->version[count] = '\0';
}

static bool holds(const uint8_t *bytes, size_t length, const char *words)
{
    return memmem(bytes, length, words, strlen(words)) != NULL;
}

static void search_banner(struct as_banner *text, const uint8_t *bytes, size_t length)
{
    static const char banner[] = "GNU C Library (";
    const uint8_t *at = text->version[0] ? NULL : memmem(bytes, length, banner, sizeof banner - 1);
    if (at) {
        size_t left = (size_t)(bytes + length - at);
        read_version(text, (const char *)at, left < OVERLAP ? left : OVERLAP);
    }
    text->complete = text->complete || holds(bytes, length, "free(): invalid pointer");
    text->safe_linking = text->safe_linking || holds(bytes, length, "free(): unaligned chunk detected in tcache 2") ||
                         holds(bytes, length, "unaligned fastbin chunk detected");
    text->fastbin_size = text->fastbin_size || holds(bytes, length, "malloc(): chunk size mismatch in fastbin");
}

bool as_text_has(const struct as_elf *elf, const char *words)
{
    AS_VEC(uint8_t) buffer = {0};
    bool found = false;
    if (!as_vec_reserve(&buffer, STEP, NULL))
        return false;
    AS_FOR_ITEMS(const struct as_elf_load, load, elf->loads, elf->load_count) {
        uint64_t end = load->flags & (PF_W | PF_X) ? 0 : load->filesz < MAX_SEARCH ? load->filesz : MAX_SEARCH;
        for (uint64_t at = 0; !found && at < end; at += STEP - OVERLAP) {
            size_t length = end - at < STEP ? (size_t)(end - at) : STEP;
            found = as_elf_read(elf, load->vaddr + at, buffer.items, length) && holds(buffer.items, length, words);
        }
    }
    as_vec_free(&buffer);
    return found;
}

void as_banner_read(struct as_banner *text, const struct as_elf *elf)
{
    *text = (struct as_banner){0};
    AS_VEC(uint8_t) buffer = {0};
    if (!as_vec_reserve(&buffer, STEP, NULL))
        return;
    // Constant data has a segment of its own, or (before --separate-code) lies with the code.
    for (unsigned executable = 0; executable <= PF_X && !text->complete; executable += PF_X) {
        AS_FOR_ITEMS(const struct as_elf_load, load, elf->loads, elf->load_count) {
            if ((load->flags & (PF_W | PF_X)) != executable)
                continue;
            uint64_t end = load->filesz < MAX_SEARCH ? load->filesz : MAX_SEARCH;
            for (uint64_t at = 0; at < end; at += STEP - OVERLAP) {
                size_t length = end - at < STEP ? (size_t)(end - at) : STEP;
                if (as_elf_read(elf, load->vaddr + at, buffer.items, length))
                    search_banner(text, buffer.items, length);
            }
        }
    }
    as_vec_free(&buffer);
}
