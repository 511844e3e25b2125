// SPDX-License-Identifier: MIT
#include "support/file_libc.h"

#include "libc/sources.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <string.h>

bool as_libc_from_file(int fd, uint32_t allowed_sources, const char *root, struct as_libc *out, struct as_error *err)
{
    *out = (struct as_libc){
        .main_arena = AS_UNKNOWN, .mp = AS_UNKNOWN, .tls_tcache = AS_UNKNOWN, .tls_thread_arena = AS_UNKNOWN};
    struct as_elf elf;
    if (!as_elf_open(&elf, fd, err))
        return false;
    struct as_object object;
    AS_CLEANUP_FD int top = open(*root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int roots[] = {top, -1};
    if (!as_object_open(&object, &elf, roots, "", err))
        return false;
    bool found = false;
    for (enum as_layout_source source = AS_LAYOUT_DWARF; !found && source < AS_LAYOUT_SCAN; source++) {
        struct as_answer answer;
        if (!(allowed_sources >> source & 1) || !as_object_ask(&object, source, &answer))
            continue;
        found = true;
        out->layout = answer.layout;
        out->source = source;
        out->main_arena = answer.main_arena;
        out->mp = answer.mp;
    }
    memcpy(out->version, as_object_banner(&object)->version, sizeof out->version);
    memcpy(out->build_id, elf.build_id, sizeof out->build_id);
    as_code_find(&elf, 0, out);
    as_object_close(&object);
    return found || as_fail(err, AS_NO_MALLOC, "no allowed source finds glibc's malloc in this file");
}
