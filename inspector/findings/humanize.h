// SPDX-License-Identifier: MIT
// Text for people: sizes, shares, times, and names that a target chose and a terminal must not obey.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AS_SIZE_TEXT = 64, AS_TIME_SIZE = 40 };
#define AS_NOT_UTF8 UINT32_MAX

// The character at `text` (of `length` > 0 bytes) into *rune; returns how many bytes it takes. A byte that begins no valid
// UTF-8 character (overlong forms and surrogates are none) counts one, as AS_NOT_UTF8.
size_t as_utf8_next(const char *text, size_t length, uint32_t *rune);

// A text by value: as an argument it lasts as long as the call.
struct as_short_text {
    char text[AS_SIZE_TEXT];
};
// "812.3 MiB", "16 B", "unknown" for AS_UNKNOWN.
struct as_short_text as_size_text(uint64_t bytes);
// With thousands set apart: "1,234"; "unknown".
struct as_short_text as_count_text(uint64_t number);
// "1 thread", "2 threads", "unknown threads". The noun has at most 32 bytes.
struct as_short_text as_plural_text(uint64_t number, const char *noun);
// A part of a whole in per cent: "12.3 %", "< 0.1 %"; empty where it cannot be said.
struct as_short_text as_share_text(uint64_t part, uint64_t whole);
// "1.234 ms", "15.2 s", "unknown".
struct as_short_text as_duration_text(uint64_t nanoseconds);

// "2026-11-20T09:32:59.123Z"; false when there is no such time.
bool as_format_time(uint64_t nanoseconds, char out[AS_TIME_SIZE]);

// Whether a terminal would obey this character, or a reader be misled by it: control characters, and those that reverse the
// direction of writing. All are below 0x10000.
bool as_is_unsafe(uint32_t rune);

// Copies text that the target chose, so that it can be shown in a terminal: control characters, characters that reverse the
// direction of writing and bytes that are not UTF-8 come out as \xNN or \u{NNNN}; when `ascii`, so does all beyond ASCII.
// Cut, with "…" or "...", where it would take more than `columns` columns. At most `max` bytes are read. Returns `out`.
const char *as_safe_text(const char *text, size_t max, size_t columns, bool ascii, char *out, size_t size);
