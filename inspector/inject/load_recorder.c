// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "inject/client.h"
#include "inject/library.h"
#include "libc/elf.h"
#include "target/process/read/live_process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 4096,
    MOST_CODE = 1 << 20,
    FIRST = 8, // bytes that are written last: the agent takes the code for complete when they are there
};

// A library, and where the process has it loaded.
struct carried {
    const struct as_client *client;
    struct as_target *target;
    struct as_elf elf;
    const char *name;
    uint64_t base;
};

// The headers, which the injector has changed (inject.c), may be in the segment of the code: aarch64's linkers have them there.
static bool is_same(const struct carried *c, const struct as_elf_load *load)
{
    uint8_t ours[PIECE], theirs[PIECE];
    for (uint64_t at = load->offset < c->elf.headers_end ? c->elf.headers_end - load->offset : 0; at < load->filesz;
         at += PIECE) {
        size_t length = load->filesz - at < PIECE ? (size_t)(load->filesz - at) : PIECE;
        if (!as_elf_read_offset(&c->elf, load->offset + at, ours, length) ||
            !as_target_read(c->target, c->base + load->vaddr + at, theirs, length) || memcmp(ours, theirs, length) != 0)
            return false;
    }
    return true;
}

// The code calls the agent's, and uses its variables: it must be of the same build. That is so where all other code is the same.
static bool is_same_build(const struct carried *c, const struct as_elf_load *last, struct as_error *err)
{
    size_t compared = 0;
    AS_FOR_ITEMS(const struct as_elf_load, load, c->elf.loads, c->elf.load_count) {
        if (load == last || !(load->flags & PF_X))
            continue;
        compared++;
        if (!is_same(c, load))
            compared = SIZE_MAX / 2;
    }
    return (compared > 0 && compared < AS_ELF_MAX_LOADS) ||
           as_fail(err, AS_UNSUPPORTED,
                   "the agent in process %d is another build than '%s', whose recorder it would need: record with the "
                   "arenadump that injected it",
                   c->target->pid, c->name);
}

static bool write_code(int memory, uint64_t address, const uint8_t *code, size_t size)
{
    return pwrite(memory, code + FIRST, size - FIRST, (off_t)(address + FIRST)) == (ssize_t)(size - FIRST) &&
           pwrite(memory, code, FIRST, (off_t)address) == FIRST;
}

// A tracer may write to code, so its protection stays as it is: a process that may not run what was writable can be recorded, too. Only a
// kernel that lets no tracer do so (proc_mem.force_override, since Linux 6.12: EIO) needs the room to be writable.
static bool write_there(const struct carried *c, uint64_t address, const uint8_t *code, size_t size,
                        struct as_error *err)
{
    const struct as_control_request room = {.protocol = AS_CONTROL_PROTOCOL, .operation = AS_CONTROL_RECORDER_ROOM};
    struct as_control_reply reply;
    AS_CLEANUP_FD int memory = openat(as_process_of(c->target)->view_fd, "mem", O_WRONLY | O_CLOEXEC);
    // An exec since would have made it another program's memory: the agent answers, and its code was just read there.
    if (memory >= 0 && !c->target->ops->stop.intact(c->target, err))
        return false;
    bool ok = memory >= 0 && write_code(memory, address, code, size);
    if (!ok && memory >= 0 && errno == EIO) {
        if (!as_client_ask(c->client, &room, &reply, NULL, err))
            return false;
        ok = write_code(memory, address, code, size);
    }
    return ok || as_fail_errno(err, AS_DENIED, "the memory of process %d cannot be written", c->target->pid);
}

static bool carry_from(struct carried *c, const struct as_control_reply *reply, struct as_error *err)
{
    const struct as_elf_load *last = c->elf.load_count > 0 ? &c->elf.loads[c->elf.load_count - 1] : NULL;
    uint64_t size = last ? last->filesz : 0;
    if (size <= FIRST || size > MOST_CODE || reply->missing.start < last->vaddr || reply->missing.size != last->memsz)
        return as_fail(err, AS_UNSUPPORTED, "the recorder in '%s' does not fit into the agent in process %d", c->name,
                       c->target->pid);
    c->base = reply->missing.start - last->vaddr;
    // The agent may have been loaded since they were listed.
    if (!as_process_refresh_maps(as_process_of(c->target), false, err) || !is_same_build(c, last, err))
        return false;
    uint8_t *code = as_memory_map((size_t)size, "the recorder's code", err);
    if (!code)
        return false;
    bool ok = as_elf_read_offset(&c->elf, last->offset, code, (size_t)size) ||
              as_fail(err, AS_BAD_INPUT, "'%s' could not be read to its end", c->name);
    ok = ok && write_there(c, reply->missing.start, code, (size_t)size, err);
    as_memory_unmap(code, (size_t)size);
    return ok;
}

static bool carry(const struct as_client *client, struct as_target *t, const struct as_control_reply *reply,
                  struct as_error *err)
{
    struct as_library library;
    if (!as_library_open(&library, err))
        return false;
    struct carried c = {.client = client, .target = t, .name = library.name};
    bool ok = as_elf_open(&c.elf, library.fd, err) && carry_from(&c, reply, err);
    close(library.fd);
    return ok;
}

bool as_load_recorder_begin(const struct as_client *client, struct as_target *t, const char *rates, bool entries,
                            uint64_t *page, struct as_error *err)
{
    struct as_control_request request = {.protocol = AS_CONTROL_PROTOCOL,
                                         .operation = entries ? AS_CONTROL_PROFILE_ENTRIES : AS_CONTROL_PROFILE};
    struct as_control_reply reply;
    *page = 0;
    if (strlen(rates) >= sizeof request.rates)
        return as_fail(err, AS_USAGE, "--rates is too long");
    memcpy(request.rates, rates, strlen(rates));
    bool ok = as_client_ask(client, &request, &reply, NULL, err) ||
              (err->code == AS_UNSUPPORTED && reply.missing.size != 0 && carry(client, t, &reply, err) &&
               as_client_ask(client, &request, &reply, NULL, err));
    *page = ok ? reply.missing.entries : 0;
    return ok;
}

bool as_load_recorder_end(const struct as_client *client, uint64_t *page, struct as_error *err)
{
    const struct as_control_request request = {.protocol = AS_CONTROL_PROTOCOL, .operation = AS_CONTROL_PROFILE_END};
    struct as_control_reply reply;
    bool ok = as_client_ask(client, &request, &reply, NULL, err);
    *page = ok ? reply.missing.entries : 0;
    return ok;
}
