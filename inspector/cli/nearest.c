// SPDX-License-Identifier: MIT
#include "cli/nearest.h"

#include <string.h>

enum { SIDE = AS_NEAREST_LENGTH + 1 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// How many edits make `b` of `a` (the distance of optimal string alignment). Both are at most AS_NEAREST_LENGTH long.
static size_t edits(const char *a, const char *b)
{
    size_t of[SIDE][SIDE]; // for the first i letters of a, and the first j of b
    size_t a_length = strlen(a), b_length = strlen(b);
    for (size_t i = 0; i <= a_length; i++) {
        for (size_t j = 0; j <= b_length; j++) {
            if (i == 0 || j == 0) {
                of[i][j] = i + j;
                continue;
            }
            of[i][j] = least(of[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least(of[i - 1][j], of[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                of[i][j] = least(of[i][j], of[i - 2][j - 2] + 1);
        }
    }
    return of[a_length][b_length];
}

const char *as_nearest(const char *word, const char *const *names, size_t count)
{
    const char *found = NULL;
    if (strlen(word) > AS_NEAREST_LENGTH)
        return NULL;
    size_t most = (strlen(word) + 1) / 3 + 1; // more than is near
    for (size_t i = 0; i < count; i++) {
        size_t needed = edits(word, names[i]);
        if (needed >= most)
            continue;
        most = needed;
        found = names[i];
    }
    return found;
}
