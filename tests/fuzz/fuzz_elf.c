// SPDX-License-Identifier: MIT
// The layout finder: any bytes as a target's libc. DWARF only with FUZZ_DWARF set: it is libdw that reads it.
#include "fuzz.h"

#include "support/file_libc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_error err;
    struct as_libc libc;
    int fd = fuzz_file(data, size);
    for (enum as_layout_source source = AS_LAYOUT_DWARF; source < AS_LAYOUT_SCAN; source++) {
        if (source == AS_LAYOUT_DWARF && !getenv("FUZZ_DWARF"))
            continue;
        bool ok = as_libc_from_file(fd, 1u << source, "", &libc, &err);
        fuzz_check(ok || (err.code != AS_OK && err.code != AS_INTERNAL), "a failure without a reason");
    }
    return 0;
}
