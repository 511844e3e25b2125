// SPDX-License-Identifier: MIT
// Dies within free(), of a pointer that is none.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    void *blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc((size_t)(100 + i));
    for (int i = 0; i < 1000; i += 2)
        free(blocks[i]);
    void *volatile bad = (void *)4096;
    free(bad);
    return 0;
}
