// SPDX-License-Identifier: MIT
// Functions and lines of addresses, for tests/inspector/test_symbolize.py: reads lines "ADDRESS" and writes, for each, lines
// "ADDRESS SOURCE INLINED FUNCTION FILE LINE" separated by tabs, innermost first; then "time NANOSECONDS" for all together.
//     place_names MODULE BUILD-ID
//     place_names --map FILE OWNER [ROOT]
#include "symbolize/places.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    struct as_places places = {0};
    struct as_error err;
    char line[64];
    double took = 0;
    if (argc < 3)
        return 2;
    bool map = strcmp(argv[1], "--map") == 0;
    if (map && argc > 4)
        as_places_set_root(&places, open(argv[4], O_PATH | O_DIRECTORY | O_CLOEXEC), true);
    if (map && !as_places_add_perf_map(&places, argv[2], (unsigned)strtoul(argv[3], NULL, 10), &err))
        return 1;
    uint32_t module = map ? (uint32_t)AS_PLACES_JIT : as_places_add_module(&places, argv[1], argv[2], 0, &err);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t address = strtoull(line, NULL, 16);
        size_t count = 0;
        double start = now();
        const struct as_code_place *found = as_places_at(&places, module, address, &count, &err);
        took += now() - start;
        if (!found || as_places_at(&places, module, address, &count, &err) != found)
            return 1;
        for (size_t i = 0; i < count; i++)
            printf("%" PRIx64 "\t%d\t%d\t%s\t%s\t%u\n", address, found[i].source, found[i].inlined,
                   as_strings_at(&places.strings, found[i].function), as_strings_at(&places.strings, found[i].file),
                   found[i].line);
    }
    printf("time\t%.0f\n", took);
    as_places_free(&places);
    return 0;
}
