// SPDX-License-Identifier: MIT
// An auditing library (rtld-audit(7)) that takes three seconds over every object that comes from a memfd: dlopen returns late.
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <time.h>

unsigned la_version(unsigned version)
{
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    (void)lmid;
    (void)cookie;
    if (strstr(map->l_name, "/fd/"))
        nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    return 0;
}
