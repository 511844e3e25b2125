// SPDX-License-Identifier: MIT
// Prints how many page faults a child of fork() has before it does anything: of CHILDREN the median, as the first has pages to fill that
// later ones find.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 21, BLOCKS = 1000 };

static void *volatile kept[BLOCKS];

static int compare(const void *left, const void *right)
{
    long a = *(const long *)left, b = *(const long *)right;
    return a < b ? -1 : a > b;
}

int main(void)
{
    static long faults[CHILDREN];
    int ends[2];
    for (int i = 0; i < BLOCKS; i++)
        kept[i] = malloc(100);
    if (pipe(ends) != 0)
        return 2;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct rusage usage;
            getrusage(RUSAGE_SELF, &usage);
            _exit(write(ends[1], &usage.ru_minflt, sizeof usage.ru_minflt) != sizeof usage.ru_minflt);
        }
        if (child < 0 || waitpid(child, NULL, 0) != child ||
            read(ends[0], &faults[i], sizeof faults[i]) != sizeof faults[i])
            return 3;
    }
    qsort(faults, CHILDREN, sizeof *faults, compare);
    printf("%ld\n", faults[CHILDREN / 2]);
    return 0;
}
