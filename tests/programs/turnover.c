// SPDX-License-Identifier: MIT
// A full cache of constant size that replaces its entries, and a list that grows. Arguments: ENTRIES in the cache, which are all replaced
// at each line of standard input; the SIZE of one; by how many notes the list GROWS then. Says "ready" when all is done.
#include <stdio.h>
#include <stdlib.h>

enum { NOTE = 200, TURNS = 4 };

struct note {
    struct note *next;
    char text[NOTE];
};

static size_t entry_size;
static char **cache;
static struct note *notes;

static __attribute__((noinline)) char *read_entry(void)
{
    char *entry = malloc(entry_size);
    if (!entry)
        abort();
    entry[0] = 1;
    return entry;
}

static __attribute__((noinline)) void replace(int i)
{
    free(cache[i]);
    cache[i] = read_entry();
}

static __attribute__((noinline)) void remember(void)
{
    struct note *note = malloc(sizeof *note);
    if (!note)
        abort();
    note->next = notes;
    notes = note;
}

static __attribute__((noinline)) void serve(int entries, int grows)
{
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < entries; i++)
            replace(i);
    for (int i = 0; i < grows; i++)
        remember();
}

int main(int argc, char **argv)
{
    char line[16];
    if (argc != 4)
        return 2;
    const int entries = atoi(argv[1]);
    const int grows = atoi(argv[3]);
    entry_size = (size_t)atoi(argv[2]);
    cache = calloc((size_t)entries, sizeof *cache);
    if (!cache)
        return 2;
    serve(entries, grows);
    do {
        puts("ready");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return 0;
        serve(entries, grows);
    } while (1);
}
