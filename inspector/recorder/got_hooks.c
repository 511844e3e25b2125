// SPDX-License-Identifier: MIT
// Where the addresses of libc's functions stand: in the slots of each object's relocations, and in ld.so's own pointers. And where the
// loader takes them from when it binds another object: in libc's table of symbols, which names the hooks while a profile is made.
// So objects that are loaded later come with hooks in their slots, before any code of theirs runs.
#include "base/clock.h"
#include "recorder/code_objects.h"
#include "recorder/recorder.h"

#include "target/target.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_PASSES = 50, BETWEEN_NS = 2000000 };

// What one function is called: the same dlclose has two versions since glibc 2.34, and a program that has a malloc of its own calls libc's
// by the last one.
enum { OWN_NAME, OTHER_VERSION, INNER_NAME, NAMES };
#define INNER "__libc_"

static struct {
    struct as_recorder_object libc, libdl;
    ElfW(Sym) * symbols[AS_RECORDER_HOOKS][NAMES]; // in the tables of these two; NULL: there is none
    uintptr_t bias[AS_RECORDER_HOOKS];
} found;

// --- libc's functions -------------------------------------------------------------------------------------------------

// Before glibc 2.34 dlclose is in libdl. One that stands before the loader in its list is there from the start, and for good.
static int find_libc(struct dl_phdr_info *info, size_t size, void *context)
{
    struct as_recorder_object o;
    (void)size;
    (void)context;
    if (!as_recorder_read_object(info, &o) || !o.hash)
        return 0;
    if (strcmp(o.soname, "libc.so.6") == 0 && !found.libc.symbols)
        found.libc = o;
    else if (strcmp(o.soname, "libdl.so.2") == 0)
        found.libdl = o;
    return strncmp(o.soname, "ld-linux", 8) == 0;
}

// The symbol, if it is one of the same function.
static ElfW(Sym) * same(const ElfW(Sym) * symbol, const ElfW(Sym) * other)
{
    return other && other->st_value == symbol->st_value ? (ElfW(Sym) *)(uintptr_t)other : NULL;
}

static void find_names(const struct as_recorder_object *o, const char *name, const ElfW(Sym) * symbol,
                       ElfW(Sym) * names[NAMES])
{
    char inner[32];
    snprintf(inner, sizeof inner, INNER "%s", name);
    names[OWN_NAME] = same(symbol, symbol);
    names[OTHER_VERSION] = same(symbol, as_recorder_next_symbol(o, name, STT_FUNC, symbol));
    names[INNER_NAME] = same(symbol, as_recorder_find_symbol(o, inner, STT_FUNC));
}

bool as_recorder_find_libc(struct as_error *err)
{
    if (found.symbols[0][OWN_NAME])
        return true;
    dl_iterate_phdr(find_libc, NULL);
    if (!found.libc.symbols)
        return as_fail(err, AS_UNSUPPORTED, "this process has no libc.so.6 with a hash table");
    as_recorder_name_hooks();
    for (size_t i = 0; i < AS_RECORDER_HOOKS; i++) {
        const struct as_recorder_object *o = &found.libc;
        const char *name = as_recorder_hooks[i].name;
        const ElfW(Sym) *symbol = as_recorder_find_symbol(o, name, STT_FUNC);
        if (!symbol && found.libdl.symbols) {
            o = &found.libdl;
            symbol = as_recorder_find_symbol(o, name, STT_FUNC);
        }
        if (!symbol)
            continue;
        find_names(o, name, symbol, found.symbols[i]);
        found.bias[i] = o->bias;
        atomic_store(&as_recorder_hooks[i].real, o->bias + symbol->st_value);
    }
    return found.symbols[0][OWN_NAME] || as_fail(err, AS_UNSUPPORTED, "libc.so.6 has no malloc");
}

uintptr_t as_recorder_function(size_t index, size_t *size)
{
    const ElfW(Sym) *symbol = found.symbols[index][OWN_NAME];
    *size = symbol ? symbol->st_size : 0;
    return *size ? atomic_load(&as_recorder_hooks[index].real) : 0;
}

// --- Writing ----------------------------------------------------------------------------------------------------------

struct slot_writing {
    struct as_target *target; // for how its pages are protected now
    const struct as_recorder_object *object;
    bool in, running, failed;
    bool unwritable;   // libc's table of symbols: it lies with code, in a process that may not make code writable
    bool others_known; // `others` is
    uint32_t others;   // a bit for each function that another object than libc defines, too
    size_t seen;       // slots that have a hook or what it stands for, or will have it
    size_t written;    // words
    size_t left;       // for the next pass
};

// The loader is still writing to a page that it will protect, perhaps at the very instant of our store.
static bool is_being_loaded(const struct slot_writing *w, uintptr_t address)
{
    uintptr_t page = (uintptr_t)1 << as_recorder.page_shift;
    return w->running && w->object && address >= (w->object->relro & ~(page - 1)) &&
           address < (w->object->relro_end & ~(page - 1));
}

// One store of an aligned word: a thread that calls through the slot meanwhile finds the old address or the new one. False: the process may
// not write there.
static bool write_word(struct slot_writing *w, uintptr_t address, uintptr_t value)
{
    const struct as_mapping *m = as_target_mapping_at(w->target, address);
    if (address % sizeof(uintptr_t) != 0 || !m || !(m->prot & AS_PROT_READ) || (m->prot & AS_PROT_SHARED))
        return false;
    bool locked = !(m->prot & AS_PROT_WRITE);
    if (!locked && is_being_loaded(w, address)) {
        w->left++;
        return true;
    }
    // The whole mapping, which the kernel would leave in pieces; of code a page, as it goes on to run meanwhile.
    bool code = m->prot & AS_PROT_EXEC;
    uintptr_t page = (uintptr_t)1 << as_recorder.page_shift;
    uintptr_t start = code ? address & ~(page - 1) : m->start;
    uintptr_t size = code ? page : m->end - m->start;
    int protection = PROT_READ | (code ? PROT_EXEC : 0);
    if (locked && mprotect((void *)start, size, protection | PROT_WRITE) != 0)
        return false;
    __atomic_store_n((uintptr_t *)address, value, __ATOMIC_RELEASE);
    if (locked)
        mprotect((void *)start, size, protection);
    w->written++;
    return true;
}

// False: it has none of these functions.
static bool replace(struct slot_writing *w, uintptr_t slot)
{
    uintptr_t value = __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
    for (size_t i = 0; i < as_recorder.hooks; i++) {
        uintptr_t real = atomic_load_explicit(&as_recorder_hooks[i].real, memory_order_relaxed);
        uintptr_t hook = as_recorder_hooks[i].hook;
        if (real == 0 || (value != real && value != hook))
            continue;
        w->seen++;
        if (value != (w->in ? hook : real))
            write_word(w, slot, w->in ? hook : real);
        return true;
    }
    return false;
}

static bool takes_a_symbol(const ElfW(Rela) * r)
{
#if defined(__x86_64__)
    enum { SLOT = R_X86_64_JUMP_SLOT, DATA = R_X86_64_GLOB_DAT, WORD = R_X86_64_64 };
#else
    enum { SLOT = R_AARCH64_JUMP_SLOT, DATA = R_AARCH64_GLOB_DAT, WORD = R_AARCH64_ABS64 };
#endif
    uint32_t type = ELF64_R_TYPE(r->r_info);
    return ELF64_R_SYM(r->r_info) != 0 && (type == SLOT || type == DATA || type == WORD);
}

// Which functions a program has of its own, as it may, or another library.
static int find_others(struct dl_phdr_info *info, size_t size, void *context)
{
    struct slot_writing *w = context;
    struct as_recorder_object o;
    (void)size;
    if (!as_recorder_read_object(info, &o) || !o.hash || o.symbols == found.libc.symbols ||
        o.symbols == found.libdl.symbols || strncmp(o.soname, "ld-linux", 8) == 0)
        return 0;
    for (size_t i = 0; i < AS_RECORDER_HOOKS; i++)
        if (as_recorder_find_symbol(&o, as_recorder_hooks[i].name, STT_FUNC))
            w->others |= UINT32_C(1) << i;
    return 0;
}

// The hook of a slot that the loader has still to bind, to a function of libc's; 0: it is not known to be so. By its
// last name, as nobody else has that: then it takes the hook from libc's table. By another one, it may be the program's
// own malloc that is found; so it is asked only where the table cannot be written, who has such a function.
static uintptr_t hook_for_unbound(struct slot_writing *w, const struct as_recorder_object *o, const ElfW(Rela) * r)
{
    const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r->r_info)];
    const char *name = o->strings + s->st_name;
    const bool inner = strncmp(name, INNER, sizeof INNER - 1) == 0;
    if (s->st_shndx != SHN_UNDEF || (!inner && !w->unwritable) || !as_recorder_is_unbound(o, r))
        return 0;
    if (!inner && !w->others_known)
        dl_iterate_phdr(find_others, w);
    w->others_known |= !inner;
    for (size_t i = 0; i < as_recorder.hooks; i++)
        if (found.symbols[i][inner ? INNER_NAME : OWN_NAME] && (inner || !(w->others & UINT32_C(1) << i)) &&
            strcmp(inner ? name + sizeof INNER - 1 : name, as_recorder_hooks[i].name) == 0)
            return as_recorder_hooks[i].hook;
    return 0;
}

static void match_at(struct slot_writing *w, const struct as_recorder_object *o, const ElfW(Rela) * r)
{
    const uintptr_t slot = o->bias + r->r_offset;
    if (!takes_a_symbol(r) || r->r_offset % sizeof(uintptr_t) != 0 || replace(w, slot))
        return;
    uintptr_t hook = hook_for_unbound(w, o, r);
    if (hook && (!w->in || !w->unwritable || write_word(w, slot, hook)))
        w->seen++;
}

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

// Libc's table of symbols first: what the loader binds meanwhile is hooked, too, or no more. Where it cannot be
// written, slots that are not bound yet get their hooks now (hook_for_unbound), and what is loaded later has none.
static void write_symbols(struct slot_writing *w)
{
    for (size_t i = 0; i < as_recorder.hooks; i++) {
        uintptr_t real = atomic_load(&as_recorder_hooks[i].real);
        uintptr_t value = (w->in ? as_recorder_hooks[i].hook : real) - found.bias[i];
        for (size_t k = 0; k < NAMES; k++) {
            ElfW(Sym) *symbol = found.symbols[i][k];
            if (symbol && symbol->st_value != value && !write_word(w, (uintptr_t)&symbol->st_value, value))
                w->unwritable = true;
        }
    }
}

// While dl_iterate_phdr calls, no object that it names is unmapped. So the list of mappings is read then: it holds for all of them.
static bool begin_pass(struct slot_writing *w)
{
    struct as_error err = {0};
    w->target = as_target_open_self(false, &err);
    w->failed = !w->target;
    if (w->target)
        write_symbols(w);
    return w->target;
}

static int write_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct slot_writing *w = context;
    struct as_recorder_object o;
    (void)size;
    if (!w->target && !begin_pass(w))
        return 1;
    // The library's own slots are libc's functions: it calls none of these, and compares with them.
    if (info->dlpi_addr == (uintptr_t)__ehdr_start || !as_recorder_read_object(info, &o))
        return 0;
    w->object = &o;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; o.tables[t] && i < o.sizes[t] / sizeof *o.tables[t]; i++)
            match_at(w, &o, &o.tables[t][i]);
    // ld.so keeps the addresses of the malloc that it calls in variables, which are protected after the start.
    if (strncmp(o.soname, "ld-linux", 8) == 0)
        for (uintptr_t at = o.relro; at + 8 <= o.relro_end; at += 8)
            replace(w, at);
    w->object = NULL;
    return 0;
}

static void pass(struct slot_writing *w)
{
    w->seen = w->written = w->left = 0;
    w->target = NULL;
    struct as_recorder_signals signals;
    bool entered = as_recorder_loader_enter(&signals); // noted, as a thread may fork meanwhile
    dl_iterate_phdr(write_object, w);
    if (entered)
        as_recorder_loader_leave(&signals);
    if (w->target)
        as_target_close(w->target);
}

// Where other threads run, a pass may miss what they load and bind: passes go on until one finds nothing to do.
bool as_recorder_write_slots(bool in, bool running)
{
    struct slot_writing w = {.in = in, .running = running};
    pass(&w);
    for (int i = 1; running && !w.failed && i < MOST_PASSES && (i == 1 || w.written > 0 || w.left > 0); i++) {
        as_sleep_ns(BETWEEN_NS);
        pass(&w);
    }
    return w.seen > 0;
}
