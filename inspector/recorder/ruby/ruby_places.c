// SPDX-License-Identifier: MIT
// What Ruby has no symbols for is found by what it says. A thread's execution context: the one word of libruby's
// thread-local variables that leads to a context which names the calling thread. The VM's variable: each word of
// libruby's variables that has the VM's address. The bytecode loop: the function in which an instruction's code is. Its
// caller: the function with a tag's label that calls the loop.
#include "recorder/ruby/ruby.h"

#include "base/vec.h"

#include <setjmp.h>
#include <string.h>

// --- The variables ----------------------------------------------------------------------------------------------------

enum { CONTEXT_READ = 64, MOST_OWN = 512, MOST_TRIES = 8, MOST_DATA = 8 << 20 };

uintptr_t as_cruby_vm_of(uintptr_t context, struct as_cruby_context *own)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    own->context = context;
    if (context == 0 || context % sizeof context != 0 || !as_inner_readable(context, CONTEXT_READ))
        return 0;
    uintptr_t thread = own->thread = as_inner_word(context + l->thread);
    if (thread % sizeof thread != 0 || !as_inner_readable(thread, l->ec + sizeof thread) ||
        !as_inner_readable(thread, l->blocking + sizeof thread))
        return 0;
    uintptr_t native = own->native = l->native ? as_inner_word(thread + l->native) : thread;
    uintptr_t vm = own->vm = as_inner_word(thread + l->vm);
    bool readable = native % sizeof native == 0 && as_inner_readable(native, l->id + sizeof native) && vm != 0 &&
                    vm % sizeof vm == 0 && as_inner_readable(vm, l->main_thread + sizeof vm) &&
                    as_inner_readable(vm + l->objspace, sizeof vm);
    uintptr_t objspace = own->objspace = readable ? as_inner_word(vm + l->objspace) : 0;
    readable = objspace != 0 && objspace % sizeof objspace == 0 &&
               as_inner_readable(objspace + l->gc_flags, sizeof(uint32_t)) &&
               as_inner_readable(objspace + l->gc_count, sizeof(uint64_t));
    return readable && as_cruby_is_own(l, own) ? vm : 0;
}

// How many places have the address; those for which there is room. 0: too many, or what cannot be read.
static size_t find_places(uintptr_t vm, uintptr_t *places)
{
    size_t count = 0;
    if (as_cruby.data_end - as_cruby.data > MOST_DATA)
        return 0;
    for (uintptr_t at = (as_cruby.data + 7) & ~(uintptr_t)7; at + sizeof at <= as_cruby.data_end; at += sizeof at) {
        if (!as_inner_readable(at, sizeof at))
            return 0;
        if (as_inner_word(at) != vm)
            continue;
        if (count == AS_CRUBY_VM_PLACES)
            return 0;
        places[count++] = at;
    }
    return count;
}

// What two threads find at the same time is the same.
bool as_cruby_locate(void)
{
    if (atomic_load_explicit(&as_cruby.located, memory_order_acquire))
        return true;
    if (atomic_load(&as_cruby.tries) >= MOST_TRIES)
        return false;
    uintptr_t first = as_recorder_pointer() + as_cruby.own_offset, vm = 0, offset = 0;
    uintptr_t size = as_cruby.own_size < MOST_OWN ? as_cruby.own_size : MOST_OWN;
    for (uintptr_t at = first; at + sizeof at <= first + size; at += sizeof at) {
        if (!as_inner_readable(at, sizeof at))
            return false;
        struct as_cruby_context own;
        uintptr_t found = as_cruby_vm_of(as_inner_word(at), &own);
        if (found && vm)
            return false;
        if (found && !as_cruby_is_there(own.context))
            return false;
        vm = found ? found : vm;
        offset = found ? at - as_recorder_pointer() : offset;
    }
    uintptr_t places[AS_CRUBY_VM_PLACES] = {0};
    if (!vm)
        return false;
    if (find_places(vm, places) == 0) {
        if (atomic_fetch_add(&as_cruby.tries, 1) == MOST_TRIES - 1) { // which is said
            uint32_t release = (uint32_t)(as_cruby.layout.major << 8 | as_cruby.layout.minor);
            as_cruby.unknown = as_recorder.head->unknown_ruby = release;
        }
        return false;
    }
    as_cruby.ec_offset = offset;
    for (size_t i = AS_CRUBY_VM_PLACES; i-- > 0;)
        __atomic_store_n(&as_cruby.vm_places[i], places[i], __ATOMIC_RELAXED);
    atomic_store_explicit(&as_cruby.located, true, memory_order_release);
    return true;
}

// --- The bytecode loop, and its caller --------------------------------------------------------------------------------

// The table in .eh_frame_hdr: where each function begins, and where its entry in .eh_frame is, both from the table's header.
struct function_place {
    int32_t start, entry;
};
enum { UNWIND_HEADER = 12, UNWIND_ENCODINGS = 0x3b031b01 }; // version 1; the usual encodings
enum { ENTRY_RANGE = 12, ENTRY_READ = 16 };

// The function that has the instruction. False: there is none, or it is not in Ruby's machine code.
static bool function_at(uintptr_t instruction, uintptr_t *start, uintptr_t *end)
{
    uintptr_t header = as_cruby.unwind;
    if (instruction < as_cruby.code || instruction >= as_cruby.code_end || !header ||
        as_inner_half(header) != UNWIND_ENCODINGS)
        return false;
    const struct function_place *places = (const void *)(header + UNWIND_HEADER);
    size_t count = as_inner_half(header + 8);
    if (count == 0 || count > (as_cruby.end - header) / sizeof *places)
        return false;
    size_t at = AS_PARTITION_POINT(1, count, i, header + (uintptr_t)places[i].start <= instruction) - 1;
    uintptr_t entry = header + (uintptr_t)places[at].entry;
    *start = header + (uintptr_t)places[at].start;
    if (*start > instruction || *start < as_cruby.code || entry < as_cruby.start || entry > as_cruby.end - ENTRY_READ)
        return false;
    *end = *start + as_inner_half(entry + ENTRY_RANGE);
    return instruction < *end && *end <= as_cruby.code_end;
}

void as_cruby_find_loop(uintptr_t instruction)
{
    uintptr_t start, end;
    if (atomic_load(&as_cruby.loop) || !function_at(instruction, &start, &end))
        return;
    atomic_store(&as_cruby.loop_end, end);
    atomic_store(&as_cruby.loop, start);
}

enum { MOST_CODE = 1 << 16 };

#if defined(__x86_64__)
enum { CALL = 0xe8, CALL_SIZE = 5, CALL_STEP = 1 };

static uintptr_t called_at(uintptr_t at)
{
    int32_t distance;
    memcpy(&distance, (const char *)at + 1, sizeof distance);
    return *(const uint8_t *)at == CALL ? at + CALL_SIZE + (uintptr_t)distance : 0;
}
#else
enum { CALL = 0x25, CALL_SIZE = 4, CALL_STEP = CALL_SIZE, CALL_SHIFT = 26 }; // bl, and the distance in words

static uintptr_t called_at(uintptr_t at)
{
    uint32_t word = as_inner_half(at);
    int64_t distance = (int32_t)(word << (32 - CALL_SHIFT)) >> (32 - CALL_SHIFT);
    return word >> CALL_SHIFT == CALL ? at + (uintptr_t)(distance * CALL_SIZE) : 0;
}
#endif

static bool calls(uintptr_t start, uintptr_t end, uintptr_t function)
{
    for (uintptr_t at = start; end - start <= MOST_CODE && end - at >= CALL_SIZE; at += CALL_STEP)
        if (called_at(at) == function)
            return true;
    return false;
}

bool as_cruby_is_exec(uintptr_t label)
{
    uintptr_t start = atomic_load(&as_cruby.exec), loop = atomic_load(&as_cruby.loop), end;
    if (start)
        return label >= start && label < atomic_load(&as_cruby.exec_end);
    // The loop itself, where it is a part of its caller.
    if (!loop || !function_at(label, &start, &end) || (start != loop && !calls(start, end, loop)))
        return false;
    atomic_store(&as_cruby.exec_end, end);
    atomic_store(&as_cruby.exec, start);
    return true;
}

// --- What libc keeps in a jmp_buf -------------------------------------------------------------------------------------

// Words of a jmp_buf: the end of this function's stack frame, and where the call returned to, both mangled by the same.
#if defined(__x86_64__)
enum { FRAME = 1, STACK = 6, CODE = 7, WORDS };
#else
enum { CODE = 11, STACK = 13, WORDS };
#endif

static bool is_near(uintptr_t code)
{
    enum { NEAR = 1 << 12 };
    return code - (uintptr_t)as_cruby_find_secret < NEAR;
}

uintptr_t as_cruby_find_secret(void)
{
    jmp_buf buffer;
    uintptr_t words[WORDS];
    _setjmp(buffer);
    memcpy(words, buffer, sizeof words);
#if defined(__x86_64__)
    enum { NEAR = 1 << 12 };
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), secret = as_cruby_unmangle(words[FRAME]) ^ frame;
    uintptr_t stack = as_cruby_unmangle(words[STACK]) ^ secret;
    return frame - stack < NEAR && is_near(as_cruby_unmangle(words[CODE]) ^ secret) ? secret : 0;
#else
    static const uint32_t turns[] = {0, AS_CRUBY_TURN}; // before glibc 2.44, and from then on
    uintptr_t stack;
    __asm__("mov %0, sp" : "=r"(stack));
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        uintptr_t secret = as_cruby_turned(words[STACK], turns[i]) ^ stack;
        if (!is_near(as_cruby_turned(words[CODE], turns[i]) ^ secret))
            continue;
        as_cruby.turn = turns[i];
        return secret;
    }
    return 0;
#endif
}
