// SPDX-License-Identifier: MIT
// An auditing library (rtld-audit(7)) that holds up every object that comes from a memfd until the file $SLOW_AUDIT_UNTIL is
// there: dlopen returns when the test says so.
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

unsigned la_version(unsigned version)
{
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    const char *path = getenv("SLOW_AUDIT_UNTIL");
    (void)lmid;
    (void)cookie;
    while (strstr(map->l_name, "/fd/") && path && access(path, F_OK) != 0)
        syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 10000000},
                NULL); // libc's may be where a thread is cancelled
    return 0;
}
