// SPDX-License-Identifier: MIT
// The core reader, and behind it all that reads a target: any bytes as a core file.
#include "fuzz.h"

#include "libc/libc.h"
#include "target/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_error err;
    fuzz_file(data, size);
    struct as_target *target = as_target_open_core(fuzz_file_name(), &err);
    if (!target) {
        fuzz_check(err.code != AS_OK && err.code != AS_INTERNAL, "a failure without a reason");
        return 0;
    }
    // The last byte says whether the files that the core names are inspected, which takes long; then not for DWARF: it would
    // fuzz elfutils.
    bool files = data[size - 1] & 1;
    fuzz_take_snapshot(
        target, (struct fuzz_wish){.sources = files ? AS_LAYOUT_ANY & ~(1u << AS_LAYOUT_DWARF) : 1u << AS_LAYOUT_SCAN});
    as_target_close(target);
    return 0;
}
