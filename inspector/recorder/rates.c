// SPDX-License-Identifier: MIT
#include "recorder/recorder.h"

#include "base/amount.h"

#include <string.h>

enum { DEFAULT_PAGES = 6, MAX_PAGES = 16 };
#define DEFAULT_MEAN (UINT64_C(512) << 10)
#define DEFAULT_MEMORY (UINT64_C(256) << 20)
#define LEAST_MEMORY (UINT64_C(64) << 20)
#define DEFAULT_BUFFERS (UINT64_C(128) << 20)
#define LEAST_BUFFERS (UINT64_C(1) << 20)
#define WHOLE_PAGES 65536               // of any processor's
#define MOST_MEMORY (UINT64_C(4) << 30) // the reader believes no more

static bool read_number(const char *at, const char *end, uint64_t *value)
{
    return as_amount_read(at, (size_t)(end - at), as_size_units, value);
}

// How pages were said to be chosen.
struct said {
    bool exact;
    uint32_t page_shift; // by pages=; 0: every page, as exact
};

static bool set(struct as_recorder_rates *rates, struct said *said, const char *word, const char *end)
{
    uint64_t value;
    if (end - word == 5 && memcmp(word, "exact", 5) == 0) {
        said->exact = true;
        rates->page_shift = 0;
        return true;
    }
    if (end - word > 6 && memcmp(word, "pages=", 6) == 0) {
        if (!read_number(word + 6, end, &value) || value == 0 || (value & (value - 1)) || value > 1 << MAX_PAGES)
            return false;
        rates->page_shift = said->page_shift = (uint32_t)__builtin_ctzll(value);
        return true;
    }
    if (end - word > 6 && memcmp(word, "bytes=", 6) == 0)
        return read_number(word + 6, end, &rates->mean) && rates->mean < UINT64_C(1) << 40;
    if (end - word > 7 && memcmp(word, "memory=", 7) == 0)
        return read_number(word + 7, end, &rates->memory) && rates->memory >= LEAST_MEMORY &&
               rates->memory <= MOST_MEMORY;
    if (end - word > 8 && memcmp(word, "buffers=", 8) == 0)
        return read_number(word + 8, end, &rates->buffers) && rates->buffers >= LEAST_BUFFERS &&
               rates->buffers <= MOST_MEMORY;
    return false;
}

bool as_recorder_parse(const char *text, struct as_recorder_rates *rates, struct as_error *err)
{
    *rates = (struct as_recorder_rates){DEFAULT_PAGES, DEFAULT_MEAN, DEFAULT_MEMORY, DEFAULT_BUFFERS};
    struct said said = {0};
    if (strcmp(text, "1") == 0)
        return true;
    for (const char *word = text;;) {
        const char *end = strchr(word, ',');
        end = end ? end : word + strlen(word);
        if (!set(rates, &said, word, end))
            return as_fail(err, AS_USAGE,
                           "'%.*s' is not a rate (exact, pages=64: a power of two, bytes=512K, memory=256M: 64M to 4G, "
                           "buffers=128M: 1M to 4G)",
                           (int)(end - word > 100 ? 100 : end - word), word);
        if (*end == '\0')
            break;
        word = end + 1;
    }
    if (said.exact && said.page_shift != 0)
        return as_fail(err, AS_USAGE, "exact is pages=1, and pages=%u is another rate: give one of them",
                       1U << said.page_shift);
    // Whoever reads the process holds their sizes against those of the mappings.
    rates->memory -= rates->memory % WHOLE_PAGES;
    rates->buffers -= rates->buffers % WHOLE_PAGES;
    return true;
}
