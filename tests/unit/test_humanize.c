// SPDX-License-Identifier: MIT
// Times as words, against the C library's own calendar: each day to the last that 64 bits of nanoseconds reach.
#include "findings/humanize.h"

#include "support/check.h"
#include "target/target.h"

#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

static void check_time(uint64_t nanoseconds)
{
    time_t seconds = (time_t)(nanoseconds / SECOND);
    struct tm tm;
    char date[AS_TIME_SIZE], expected[AS_TIME_SIZE * 2], out[AS_TIME_SIZE];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    snprintf(expected, sizeof expected, "%s.%03uZ", date, (unsigned)(nanoseconds % SECOND / 1000000));
    CHECK(as_format_time(nanoseconds, out));
    CHECK(strcmp(out, expected) == 0, "%s, not %s", out, expected);
}

int main(void)
{
    for (uint64_t day = 0; day < UINT64_MAX / DAY; day++) {
        check_time(day * DAY);
        check_time((day + 1) * DAY - 1);
    }
    check_time(AS_UNKNOWN - 1);
    char out[AS_TIME_SIZE];
    CHECK(!as_format_time(AS_UNKNOWN, out));
    return 0;
}
