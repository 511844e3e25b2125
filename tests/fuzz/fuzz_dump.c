// SPDX-License-Identifier: MIT
// The dump reader, and what shows a dump: any bytes as a dump file.
#include "fuzz.h"

#include "dump/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_error err;
    struct as_dump_file dump;
    if (!as_dump_open_fd(&dump, fuzz_file(data, size), "input", &err)) {
        fuzz_check(err.code == AS_BAD_INPUT, "a dump that cannot be read is bad input");
        return 0;
    }
    fuzz_render(&dump.view);
    as_dump_file_close(&dump);
    return 0;
}
