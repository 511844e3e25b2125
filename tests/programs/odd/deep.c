// SPDX-License-Identifier: MIT
// Has a file mapped whose path is longer than any limit on paths: made step by step, from within one directory after the other.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVELS = 300, NAME = 255 };

static void check(int result)
{
    if (result >= 0)
        return;
    perror("deep");
    exit(1);
}

int main(void)
{
    char name[NAME + 1] = "";
    memset(name, 'd', NAME);
    for (int i = 0; i < LEVELS; i++) {
        check(mkdir(name, 0700));
        check(chdir(name));
    }
    int fd = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
    check(fd);
    check(ftruncate(fd, 4096));
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        check(-1);
    // What is mapped keeps its path.
    check(unlink("file"));
    for (int i = 0; i < LEVELS; i++) {
        check(chdir(".."));
        check(rmdir(name));
    }
    void *blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc((size_t)(100 + i));
    for (int i = 0; i < 1000; i += 2)
        free(blocks[i]);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
