// SPDX-License-Identifier: MIT
// An auditing library (rtld-audit(7)) that loads from an address where nothing is, as an object is opened that comes from a memfd:
// a fault in the middle of dlopen. See leaves.c.
#define _GNU_SOURCE
#include <link.h>
#include <string.h>

#define FAULT_AT ((volatile char *)0x100000000000)

unsigned la_version(unsigned version)
{
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    (void)lmid;
    (void)cookie;
    if (strstr(map->l_name, "/fd/"))
        (void)*FAULT_AT;
    return 0;
}
