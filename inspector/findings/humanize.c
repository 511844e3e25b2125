// SPDX-License-Identifier: MIT
#include "findings/humanize.h"

#include "target/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t as_utf8_next(const char *text, size_t length, uint32_t *rune)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    *rune = AS_NOT_UTF8;
    if (first < 0x80) {
        *rune = first;
        return 1;
    }
    size_t want = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || want > length)
        return 1;
    uint32_t value = first & (0x7fu >> want);
    for (size_t i = 1; i < want; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (byte & 0x3f);
    }
    if (value < smallest[want] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 1;
    *rune = value;
    return want;
}

struct as_short_text as_size_text(uint64_t bytes)
{
    static const char units[] = "KMGTPE";
    struct as_short_text out = {"unknown"};
    double size = (double)bytes / 1024;
    size_t unit = 0;
    // 1023.96 would be printed as 1024.0.
    while (size >= 1023.95 && unit + 2 < sizeof units) {
        size /= 1024;
        unit++;
    }
    if (bytes < 1024)
        snprintf(out.text, sizeof out.text, "%" PRIu64 " B", bytes);
    else if (bytes != AS_UNKNOWN)
        snprintf(out.text, sizeof out.text, "%.1f %ciB", size, units[unit]);
    return out;
}

struct as_short_text as_count_text(uint64_t number)
{
    struct as_short_text out = {"unknown"};
    if (number == AS_UNKNOWN)
        return out;
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number), used = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out.text[used++] = ',';
        out.text[used++] = digits[i];
    }
    out.text[used] = '\0';
    return out;
}

struct as_short_text as_plural_text(uint64_t number, const char *noun)
{
    struct as_short_text out;
    snprintf(out.text, sizeof out.text, "%.26s %.32s%s", as_count_text(number).text, noun, number == 1 ? "" : "s");
    return out;
}

struct as_short_text as_share_text(uint64_t part, uint64_t whole)
{
    struct as_short_text out = {""};
    if (part == AS_UNKNOWN || whole == AS_UNKNOWN || whole == 0)
        return out;
    double per_cent = 100 * (double)part / (double)whole;
    if (part > 0 && per_cent < 0.05) // what would show as 0.0
        snprintf(out.text, sizeof out.text, "< 0.1 %%");
    else
        snprintf(out.text, sizeof out.text, "%.1f %%", per_cent);
    return out;
}

struct as_short_text as_duration_text(uint64_t nanoseconds)
{
    struct as_short_text out = {"unknown"};
    if (nanoseconds < 1000 * 1000)
        snprintf(out.text, sizeof out.text, "%.3f ms", (double)nanoseconds / 1e6);
    else if (nanoseconds < 1000 * 1000 * 1000)
        snprintf(out.text, sizeof out.text, "%.1f ms", (double)nanoseconds / 1e6);
    else if (nanoseconds != AS_UNKNOWN)
        snprintf(out.text, sizeof out.text, "%.1f s", (double)nanoseconds / 1e9);
    return out;
}

static bool is_leap(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

// Takes the days of the years since 1970 from *days; returns the year.
static unsigned take_years(uint64_t *days)
{
    unsigned year = 1970;
    for (; *days >= 365u + is_leap(year); year++)
        *days -= 365u + is_leap(year);
    return year;
}

// Takes the days of the year's months from *days; returns the month, from 1 on.
static unsigned take_months(unsigned year, uint64_t *days)
{
    static const unsigned char in_month[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned month = 0;
    for (unsigned more; *days >= (more = in_month[month] + (month == 1 && is_leap(year))); month++)
        *days -= more;
    return month + 1;
}

// Not by gmtime(), which brings the C library's time zones into a static program, 100 KiB.
bool as_format_time(uint64_t nanoseconds, char out[AS_TIME_SIZE])
{
    // Year 2554 is the end of what fits; it stands for "unknown" too.
    if (nanoseconds == AS_UNKNOWN)
        return false;
    uint64_t seconds = nanoseconds / 1000000000, days = seconds / 86400;
    unsigned in_day = (unsigned)(seconds % 86400);
    unsigned year = take_years(&days), month = take_months(year, &days);
    snprintf(out, AS_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, (unsigned)days + 1, in_day / 3600,
             in_day / 60 % 60, in_day % 60, (unsigned)(nanoseconds / 1000000 % 1000));
    return true;
}

bool as_is_unsafe(uint32_t rune)
{
    return rune < 0x20 || (rune >= 0x7f && rune < 0xa0) || rune == 0x61c || (rune >= 0x200b && rune <= 0x200f) ||
           (rune >= 0x2028 && rune <= 0x202e) || (rune >= 0x2060 && rune <= 0x206f) || rune == 0xfeff;
}

const char *as_safe_text(const char *text, size_t max, size_t columns, bool ascii, char *out, size_t size)
{
    const char *end = text + strnlen(text, max);
    const char *more = ascii ? "..." : "…";
    size_t more_columns = ascii ? 3 : 1;
    size_t used = 0, shown = 0;
    size_t fit_used = 0; // where to cut so that `more` still fits
    out[0] = '\0';
    while (text < end) {
        char piece[16];
        uint32_t rune;
        size_t length = as_utf8_next(text, (size_t)(end - text), &rune);
        if (rune == AS_NOT_UTF8)
            snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)*text);
        else if (as_is_unsafe(rune) || (ascii && rune >= 0x80))
            snprintf(piece, sizeof piece, rune < 0x80 ? "\\x%02" PRIx32 : "\\u{%" PRIx32 "}", rune);
        else
            snprintf(piece, sizeof piece, "%.*s", (int)length, text);
        size_t piece_columns = rune < 0x80 || piece[0] == '\\' ? strlen(piece) : 1;
        if (shown + more_columns <= columns)
            fit_used = used;
        if (shown + piece_columns > columns || used + strlen(piece) + sizeof "…" > size) {
            snprintf(out + fit_used, size - fit_used, "%s", more);
            return out;
        }
        memcpy(out + used, piece, strlen(piece) + 1);
        used += strlen(piece);
        shown += piece_columns;
        text += length;
    }
    return out;
}
