// SPDX-License-Identifier: MIT
#include "inject/plan.h"
#include "libc/target_modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// glibc's internal flag that __libc_dlopen_mode wants from callers outside of libc (include/dlfcn.h).
static const uint64_t INTERNAL_DLOPEN = 0x80000000;

enum {
    RTLD_GLOBAL_MOST = 64 * 1024, // bytes of _rtld_global: 4 KB in every version so far
    R_STATE_OFFSET = 24,          // of struct r_debug: r_version, r_map, r_brk, r_state (link.h)
};

// Exported functions that call back into the application while they hold locks that dlopen or the start of a thread needs, or
// when it is too late for either.
static const char *const callers[] = {"fork", "__libc_fork", "_Fork", "exit", "__cxa_finalize"};

// Exported functions that wait while they hold a lock of libc's, for something else than a lock: for all other threads to handle
// SIGSETXID (with the lock of the list of threads), for the kernel to make a process (with those of all arenas).
static const char *const lock_owners[] = {"setuid",    "setgid",    "seteuid",   "setegid", "setreuid",    "setregid",
                                          "setresuid", "setresgid", "setgroups", "fork",    "__libc_fork", "_Fork"};

static bool defined(const struct as_module *module, const char *name, Elf64_Sym *symbol)
{
    return as_elf_dynamic_symbol(&module->elf, name, symbol) && symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0;
}

// The function's address in the target; 0: this module has none.
static uint64_t function(const struct as_module *module, const char *name)
{
    Elf64_Sym symbol;
    return defined(module, name, &symbol) && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC ? module->base + symbol.st_value
                                                                                       : 0;
}

static bool add_range(as_range_vec *ranges, uint64_t start, uint64_t end, struct as_error *err)
{
    return as_vec_push(ranges, err, (struct as_range){start, end});
}

// The segments of that kind: PF_X code, PF_W data.
static bool add_segments(as_range_vec *ranges, const struct as_module *module, uint32_t kind, struct as_error *err)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < module->elf.load_count; i++) {
        const struct as_elf_load *load = &module->elf.loads[i];
        if (load->flags & kind)
            ok = add_range(ranges, module->base + load->vaddr, module->base + load->vaddr + load->memsz, err);
    }
    return ok;
}

// Where these functions are, as far as the module has them.
static bool add_functions(as_range_vec *ranges, const struct as_module *module, const char *const *names, size_t count,
                          struct as_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        Elf64_Sym symbol;
        if (defined(module, names[i], &symbol) && symbol.st_size != 0)
            ok =
                add_range(ranges, module->base + symbol.st_value, module->base + symbol.st_value + symbol.st_size, err);
    }
    return ok;
}

static bool is_named(const struct as_module *module, const char *name)
{
    return strncmp(module->elf.soname, name, strlen(name)) == 0;
}

static bool is_loader(const struct as_module *module)
{
    return is_named(module, "ld-linux");
}

// What comes with libc as files of their own (until 2.34, but for the first).
static bool is_companion(const struct as_module *module)
{
    return is_named(module, "libc_malloc_debug.so") || is_named(module, "libpthread.so.0") ||
           is_named(module, "libdl.so.2") || is_named(module, "librt.so.1");
}

static void see_loader(struct as_plan *plan, const struct as_module *module)
{
    Elf64_Sym symbol;
    if (defined(module, "_rtld_global", &symbol) && symbol.st_size <= RTLD_GLOBAL_MOST)
        plan->loader =
            (struct as_range){module->base + symbol.st_value, module->base + symbol.st_value + symbol.st_size};
    if (defined(module, "_r_debug", &symbol))
        plan->debug_state = module->base + symbol.st_value + R_STATE_OFFSET;
}

// The functions of the libc that the program itself uses, or of its companions.
static void see_libc(struct as_plan *plan, const struct as_module *module, bool is_libc)
{
    uint64_t dlopen = function(module, "dlopen");
    if (dlopen != 0) {
        plan->dlopen = dlopen;
        plan->dlopen_flags = RTLD_NOW;
        plan->dlerror = function(module, "dlerror");
    }
    // Before 2.34 a program need not have libdl, and libc keeps a way of its own.
    if (is_libc && plan->dlopen == 0) {
        plan->dlopen = function(module, "__libc_dlopen_mode");
        plan->dlopen_flags = RTLD_NOW | INTERNAL_DLOPEN;
    }
    if (is_libc)
        plan->errno_location = function(module, "__errno_location");
}

// Until 2.33 a program could have malloc call it, with an arena locked, whenever that has asked the kernel for memory.
static bool is_hooked(struct as_target *t, const struct as_module *libc)
{
    Elf64_Sym symbol;
    uint64_t value;
    if (defined(libc, "__after_morecore_hook", &symbol) &&
        (!as_target_read_u64(t, libc->base + symbol.st_value, &value) || value != 0))
        return true;
    return defined(libc, "__morecore", &symbol) &&
           (!as_target_read_u64(t, libc->base + symbol.st_value, &value) ||
            (value != 0 && value != function(libc, "__default_morecore"))); // 0: it is not used any more
}

static bool see(struct as_plan *plan, struct as_target *t, const struct as_module *module, const struct as_libc *libc,
                struct as_error *err)
{
    bool is_libc = module->base == libc->base;
    if (function(module, AS_AGENT_WAKE) != 0)
        plan->wake = function(module, AS_AGENT_WAKE);
    if (is_loader(module)) {
        see_loader(plan, module);
        return add_segments(&plan->system, module, PF_X, err) && add_segments(&plan->loader_code, module, PF_X, err) &&
               add_segments(&plan->data, module, PF_W, err);
    }
    if (!is_libc && !is_companion(module))
        return true;
    plan->hooked |= is_libc && is_hooked(t, module);
    if (module->order != AS_NO_ORDER || is_libc)
        see_libc(plan, module, is_libc);
    return add_segments(&plan->system, module, PF_X, err) && add_segments(&plan->data, module, PF_W, err) &&
           add_functions(&plan->callers, module, callers, sizeof callers / sizeof callers[0], err) &&
           add_functions(&plan->lock_owners, module, lock_owners, sizeof lock_owners / sizeof lock_owners[0], err);
}

// The first place in libc's code where these bytes stand; 0: none.
static uint64_t find_code(struct as_target *t, const struct as_libc *libc, const uint8_t *code, size_t length)
{
    uint8_t bytes[4096];
    for (uint64_t at = libc->code_start; at < libc->code_end; at += sizeof bytes - length + 1) {
        size_t got = t->ops->memory.read(t, at, bytes, sizeof bytes);
        const uint8_t *found = memmem(bytes, got, code, length);
        if (found)
            return at + (uint64_t)(found - bytes);
        if (got < sizeof bytes)
            break;
    }
    return 0;
}

#if defined(__x86_64__)
static void see_way_back(struct as_plan *plan, struct as_target *t, const struct as_libc *libc)
{
    static const uint8_t POP_ARGUMENT[] = {0x5f, 0xc3}; // also the end of a `pop %r15; ret`
    static const uint8_t SYSCALL_RETURN[] = {0x0f, 0x05, 0xc3};
    static const uint8_t RESTORER[] = AS_RESTORER;
    plan->way.pop_argument = find_code(t, libc, POP_ARGUMENT, sizeof POP_ARGUMENT);
    plan->way.syscall_return = find_code(t, libc, SYSCALL_RETURN, sizeof SYSCALL_RETURN);
    plan->way.restorer = find_code(t, libc, RESTORER, sizeof RESTORER);
}

#else
// as_target_read leaves alone what is neither anonymous nor a file's.
static uint64_t find_restorer(struct as_target *t, const struct as_mapping *vdso)
{
    static const uint8_t RESTORER[] = AS_RESTORER;
    uint8_t bytes[4096];
    for (uint64_t at = vdso->start; at < vdso->end; at += sizeof bytes - sizeof RESTORER) {
        size_t length = vdso->end - at < sizeof bytes ? (size_t)(vdso->end - at) : sizeof bytes;
        ssize_t got = pread(as_process_of(t)->mem_fd, bytes, length, (off_t)at);
        const uint8_t *found = got > 0 ? memmem(bytes, (size_t)got, RESTORER, sizeof RESTORER) : NULL;
        if (found)
            return at + (uint64_t)(found - bytes);
        if (got < (ssize_t)length)
            break;
    }
    return 0;
}

// The kernel's own restorer is in the vdso; libc has none. Of libc's system calls the generic one, syscall(), has nothing between
// the call and the return but a snapshot of whether it failed.
static void see_way_back(struct as_plan *plan, struct as_target *t, const struct as_libc *libc)
{
    static const uint8_t SYSCALL_BYTES[] = {0x01, 0x00, 0x00, 0xd4, 0x1f, 0xfc, 0x3f, 0xb1,  // svc #0; cmn x0, #4095
                                            0x42, 0x00, 0x00, 0x54, 0xc0, 0x03, 0x5f, 0xd6}; // b.cs ...; ret
    plan->way.syscall_return = find_code(t, libc, SYSCALL_BYTES, sizeof SYSCALL_BYTES);
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings)
        if (strcmp(as_mapping_path(t, m), "[vdso]") == 0)
            plan->way.restorer = find_restorer(t, m);
}
#endif

bool as_plan_make(struct as_plan *plan, struct as_target *t, const struct as_malloc *m, struct as_error *err)
{
    *plan = (struct as_plan){0};
    struct as_modules modules;
    const struct as_libc *libc = &m->libcs.items[0];
    bool ok = as_modules_find(&modules, t, err);
    if (!ok)
        return false;
    AS_FOR_EACH_WHILE(ok, struct as_module, module, &modules.list) {
        if (!as_module_open(&modules, module))
            continue;
        ok = see(plan, t, module, libc, err);
        as_module_close(module);
    }
    as_modules_free(&modules);
    see_way_back(plan, t, libc);
    for (size_t i = 0; ok && i < m->libcs.count; i++)
        ok = m->libcs.items[i].malloc_end == 0 ||
             add_range(&plan->malloc, m->libcs.items[i].malloc_start, m->libcs.items[i].malloc_end, err);
    AS_FOR_EACH_WHILE(ok, const struct as_mapping, map, &t->mappings)
        if (strcmp(as_mapping_path(t, map), "[vdso]") == 0)
            ok = add_range(&plan->system, map->start, map->end, err);
    if (ok && plan->loader.end == 0)
        ok = as_fail(err, AS_UNSUPPORTED,
                     "process %d has no dynamic loader of glibc (a static program?): nothing can be loaded into it",
                     t->pid);
    if (ok && (plan->dlopen == 0 || plan->errno_location == 0 || libc->malloc_end == 0))
        ok = as_fail(err, AS_UNSUPPORTED,
                     "the libc of process %d exports no dlopen, or hides where its malloc is: nothing can be loaded "
                     "into it safely",
                     t->pid);
    if (!ok)
        as_plan_free(plan);
    return ok;
}

void as_plan_free(struct as_plan *plan)
{
    AS_FREE_VECS(plan, system, loader_code, data, malloc, callers, lock_owners);
}

// A recursive mutex of nptl that is held (struct __pthread_mutex_s): lock, count, owner, nusers, kind.
static bool is_held_mutex(const uint32_t words[5])
{
    enum { RECURSIVE = 1, MOST_COUNT = 100, MOST_TID = 1 << 22 };
    return words[0] >= 1 && words[0] <= 2 && words[1] >= 1 && words[1] <= MOST_COUNT && words[2] >= 1 &&
           words[2] <= MOST_TID && words[3] == 1 && words[4] == RECURSIVE;
}

bool as_plan_loader_is_busy(const struct as_plan *plan, struct as_target *t, char *why, size_t why_size)
{
    int32_t state = 0;
    if (plan->debug_state != 0 && as_target_read(t, plan->debug_state, &state, sizeof state) && state != 0) {
        snprintf(why, why_size, "its loader is adding or removing objects");
        return true;
    }
    // Where in _rtld_global the locks are differs from version to version; what a held one resembles does not.
    uint8_t bytes[RTLD_GLOBAL_MOST];
    size_t length = (size_t)(plan->loader.end - plan->loader.start);
    if (!as_target_read(t, plan->loader.start, bytes, length)) {
        snprintf(why, why_size, "its loader's data cannot be read");
        return true;
    }
    for (size_t i = 0; i + 5 * sizeof(uint32_t) <= length; i += sizeof(uint64_t)) {
        uint32_t words[5];
        memcpy(words, bytes + i, sizeof words);
        if (is_held_mutex(words)) {
            snprintf(why, why_size, "thread %u (by its own count) holds the loader's lock", words[2]);
            return true;
        }
    }
    return false;
}

bool as_plan_waits_in_loader(const struct as_plan *plan, struct as_target *t, uint64_t address)
{
    uint8_t bytes[RTLD_GLOBAL_MOST];
    size_t length = (size_t)(plan->loader.end - plan->loader.start);
    uint32_t owner = 0; // of all that are held
    bool found = false;
    if (!as_target_read(t, plan->loader.start, bytes, length))
        return false;
    for (size_t i = 0; i + 5 * sizeof(uint32_t) <= length; i += sizeof(uint64_t)) {
        uint32_t words[5];
        memcpy(words, bytes + i, sizeof words);
        if (!is_held_mutex(words))
            continue;
        if (owner != 0 && owner != words[2])
            return false;
        owner = words[2];
        found |= plan->loader.start + i == address;
    }
    return found;
}
