// SPDX-License-Identifier: MIT
// Ruby says which release it is (ruby_api_version), where its VM is (ruby_current_vm_ptr) and which execution context a thread has
// (ruby_current_ec, a thread-local variable; before 3.0 one variable, of the thread that has the VM's lock). The structures behind
// are those of vm_core.h and iseq.h of the release. From 3.3 on these variables have no symbols: they are found by what they say
// (ruby_places.c). Nothing is believed by the release alone: a context's thread names the context, the VM and the thread; control frames
// fill the end of the VM's stack; for each call of the bytecode loop there is a tag on the C stack; and the machine code of Ruby's own
// functions reads where the layout says. No function of Ruby's is called.
#include "recorder/ruby/ruby.h"
#include "recorder/code_objects.h"

#include <string.h>

// A VM has three mutexes before its objspace. The table has those of x86-64.
enum { MUTEXES = 3, MUTEX_SIZE = 40 };
#define OBJSPACE(offset) ((offset) + MUTEXES * (sizeof(pthread_mutex_t) - MUTEX_SIZE))

#define TO_3_1                                                                                                         \
    .path = 64, .label = 80, .first_line = 88, .first_line_shift = 1, .code_location = 100, .lines = 120,              \
    .line_count = 136, .positions = 144, .body_read = 152, .text = 16

#define FROM_3_3                                                                                                       \
    .hidden = true, .thread = 48, .ec = 48, .vm = 32, .native = 40, .id = 16, .blocking = 248, .main_thread = 40,      \
    .frame_size = 56, .path = 64, .label = 80, .first_line = 88, .code_location = 100, .lines = 112,                   \
    .line_count = 128, .positions = 136, .line_size = 12, .body_read = 144, .text = 24

static const struct as_cruby_layout layouts[] = {
    {.major = 2,
     .minor = 7,
     .thread = 56,
     .ec = 32,
     .vm = 24,
     .id = 72,
     .blocking = 152,
     .main_thread = 152 + sizeof(pthread_mutex_t), // which is one of the variables before it
     .objspace = OBJSPACE(1152),
     .gc_flags = 16,
     .gc_count = 424,
     .frame_size = 56,
     .line_size = 8,
     TO_3_1},
    {.major = 3,
     .minor = 1,
     .thread = 48,
     .ec = 40,
     .vm = 32,
     .id = 80,
     .blocking = 168,
     .main_thread = 40,
     .objspace = OBJSPACE(1104),
     .gc_flags = 16,
     .gc_count = 440,
     .frame_size = 64,
     .line_size = 12,
     TO_3_1},
    {.major = 3, .minor = 3, .objspace = OBJSPACE(1304), .gc_flags = 16, .gc_count = 1392, FROM_3_3},
    {.major = 3, .minor = 4, .objspace = OBJSPACE(1296), .gc_flags = 20, .gc_count = 1008, FROM_3_3},
};

#define MOST_STATIC_TLS UINT64_C(65536)

static uintptr_t address_of(const struct as_recorder_object *o, const char *name, int type)
{
    const ElfW(Sym) *symbol = as_recorder_find_symbol(o, name, type);
    return symbol ? o->bias + symbol->st_value : 0;
}

static void find_ends(const struct as_recorder_object *o)
{
    as_cruby.start = UINTPTR_MAX;
    as_cruby.end = as_cruby.unwind = as_cruby.code_end = as_cruby.data_end = as_cruby.own_size = 0;
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];
        uintptr_t start = o->bias + h->p_vaddr, end = start + h->p_memsz;
        if (h->p_type == PT_GNU_EH_FRAME)
            as_cruby.unwind = start;
        if (h->p_type == PT_TLS)
            as_cruby.own_size = h->p_memsz;
        if (h->p_type != PT_LOAD)
            continue;
        as_cruby.start = start < as_cruby.start ? start : as_cruby.start;
        as_cruby.end = end > as_cruby.end ? end : as_cruby.end;
        if ((h->p_flags & PF_X) && (h->p_flags & PF_R))
            as_cruby.code = start, as_cruby.code_end = end;
        if (h->p_flags & PF_W)
            as_cruby.data = start, as_cruby.data_end = end;
    }
}

// Thread-local variables of an object that was there at the start lie right below each thread's pointer (on aarch64 above it), at the same
// distance. In another object they do not: then Ruby has no frames.
static bool find_context(const struct as_recorder_object *o, const struct dl_phdr_info *info, bool hidden)
{
    uintptr_t own = (uintptr_t)info->dlpi_tls_data, pointer = as_recorder_pointer();
    const ElfW(Sym) *symbol = as_recorder_find_symbol(o, "ruby_current_ec", STT_TLS);
    as_cruby.ec_variable = symbol || hidden ? 0 : address_of(o, "ruby_current_execution_context_ptr", STT_OBJECT);
    if (as_cruby.ec_variable)
        return true;
    as_cruby.own_offset = own - pointer;
    as_cruby.ec_offset = as_cruby.own_offset + (symbol ? symbol->st_value : 0);
#if defined(__x86_64__)
    uintptr_t distance = pointer - own, left = distance;
#else
    uintptr_t distance = own - pointer, left = MOST_STATIC_TLS;
#endif
    return (symbol || hidden) && own && distance > 0 && distance <= MOST_STATIC_TLS &&
           (!symbol || symbol->st_value <= left) && as_cruby.ec_offset % sizeof(uintptr_t) == 0;
}

static void find_exec(const struct as_recorder_object *o)
{
    const ElfW(Sym) *exec = as_recorder_find_symbol(o, "rb_vm_exec", STT_FUNC);
    atomic_store(&as_cruby.exec_end, exec ? o->bias + exec->st_value + exec->st_size : 0);
    atomic_store(&as_cruby.exec, exec ? o->bias + exec->st_value : 0);
}

// Where it may be unloaded at any time, a thread's own variables say whether the thread is in it, and so whether it is there.
static bool take_ruby(const struct as_recorder_object *o, const struct dl_phdr_info *info,
                      const struct as_cruby_layout *l, bool stays)
{
    if (!find_context(o, info, l->hidden) || (as_cruby.ec_variable && !stays))
        return false;
    find_ends(o);
    find_exec(o);
    as_cruby.stays = stays;
    as_cruby.layout = *l;
    as_cruby.loop = as_cruby.loop_end = 0;
    atomic_store(&as_cruby.key, 0);
    as_cruby.secret = as_cruby_find_secret();
    atomic_store(&as_cruby.located, false);
    uintptr_t vm_place = address_of(o, "ruby_current_vm_ptr", STT_OBJECT);
    for (size_t i = 0; i < AS_CRUBY_VM_PLACES; i++)
        __atomic_store_n(&as_cruby.vm_places[i], i == 0 ? vm_place : 0, __ATOMIC_RELAXED);
    atomic_store(&as_cruby.tries, 0);
    atomic_store(&as_cruby.located, !l->hidden);
    return (l->hidden || (as_cruby.exec && vm_place)) && as_cruby_readers_agree(o, l);
}

struct ruby_finding {
    bool is_behind_loader; // what the process did not start with is behind ld.so in the list
    bool may_change;
};

// The one that was found before, at the same place, with what is known of it.
static bool is_known(const struct dl_phdr_info *info, uint32_t major, uint32_t minor)
{
    uintptr_t own_offset = (uintptr_t)info->dlpi_tls_data - as_recorder_pointer();
    return atomic_load(&as_cruby.found) && as_cruby.bias == info->dlpi_addr && as_cruby.layout.major == major &&
           as_cruby.layout.minor == minor && (as_cruby.ec_variable || as_cruby.own_offset == own_offset);
}

static int find_ruby(struct dl_phdr_info *info, size_t size, void *context)
{
    struct ruby_finding *f = context;
    struct as_recorder_object o;
    if (size < sizeof *info || !as_recorder_read_object(info, &o))
        return 0;
    f->is_behind_loader |= as_recorder_is_loader(&o);
    uintptr_t release = o.hash ? address_of(&o, "ruby_api_version", STT_OBJECT) : 0;
    if (!release)
        return 0;
    f->may_change |= f->is_behind_loader;
    uint32_t major = as_inner_half(release), minor = as_inner_half(release + sizeof major);
    if (is_known(info, major, minor))
        return 1;
    atomic_store(&as_cruby.found, false);
    as_cruby.bias = info->dlpi_addr;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (major == layouts[i].major && minor == layouts[i].minor &&
            take_ruby(&o, info, &layouts[i], !f->is_behind_loader))
            return 1;
    bool sayable = major > 0 && major <= UINT8_MAX && minor <= UINT8_MAX;
    as_cruby.unknown = sayable ? major << 8 | minor : AS_PROFILE_RELEASE_UNKNOWN;
    return 0;
}

bool as_cruby_find(void)
{
    struct ruby_finding f = {0};
    if (atomic_load(&as_cruby.found) && as_cruby.stays)
        return true;
    as_cruby.unknown = 0;
    bool there = dl_iterate_phdr(find_ruby, &f) != 0;
    if (there)
        as_cruby.unknown = 0;
    atomic_store_explicit(&as_cruby.found, there, memory_order_release);
    return !f.may_change;
}
