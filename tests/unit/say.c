// SPDX-License-Identifier: MIT
// Numbers and names for people, for tests/cli/test_words.py: for each line of the input one of the output.
//     size NUMBER    count NUMBER    plural NUMBER    share PART WHOLE    name BYTES (hexadecimal)    title RUNTIME
#include "findings/humanize.h"
#include "findings/runtime_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_name(const char *hex)
{
    char name[1024], out[8192];
    size_t length = 0;
    for (unsigned byte; length < sizeof name && sscanf(hex + 2 * length, "%2x", &byte) == 1; length++)
        name[length] = (char)byte;
    puts(as_safe_text(name, length, SIZE_MAX, false, out, sizeof out));
}

static void say_title(char *runtime)
{
    runtime[strcspn(runtime, "\n")] = '\0';
    const char *title = as_runtime_title(runtime);
    puts(title ? title : "");
}

int main(void)
{
    char line[4096], what[8];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t number = 0, whole = 0;
        if (sscanf(line, "%7s %" SCNu64 " %" SCNu64, what, &number, &whole) < 1)
            return EXIT_FAILURE;
        if (strcmp(what, "size") == 0)
            puts(as_size_text(number).text);
        else if (strcmp(what, "count") == 0)
            puts(as_count_text(number).text);
        else if (strcmp(what, "plural") == 0)
            puts(as_plural_text(number, "thread").text);
        else if (strcmp(what, "share") == 0)
            puts(as_share_text(number, whole).text);
        else if (strcmp(what, "title") == 0)
            say_title(line + strlen("title "));
        else
            say_name(line + strlen("name "));
    }
    return EXIT_SUCCESS;
}
