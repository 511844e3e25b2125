// SPDX-License-Identifier: MIT
// Ruby's control frames as a thread's own allocations see them. docs/profile.md says what is read, and what is not. Internal to profile/.
//
//   ruby.c          where Ruby is in this process, and which layout its structures have
//   ruby_readers.c  whether Ruby's own functions read where the layout says
//   ruby_places.c   what no symbol names: variables, and the functions that run bytecode
//   ruby_context.c  the execution context of the calling thread
//   ruby_walk.c     its frames
//   ruby_recent.c   whether they are those of one of the thread's last contexts
//   ruby_iseqs.c    what an instruction sequence (iseq) is recognised by
//   ruby_names.c    method or block, file and line of a frame that is seen for the first time
#pragma once

#include "recorder/hot_path.h"
#include "recorder/interp_frames.h"

#include <pthread.h>

#pragma GCC visibility push(hidden) // of what is declared, too: else its address is read from a table each time

// Offsets in the structures of one release, all in bytes.
struct as_cruby_layout {
    uint16_t major, minor;
    uint16_t thread;               // of rb_execution_context_t: its rb_thread_t
    uint16_t ec, vm, id, blocking; // of rb_thread_t
    uint16_t native;               // the same: the native thread, which has the id then; 0: it has the id itself
    uint16_t main_thread;          // of rb_vm_t
    uint16_t objspace;             // the same
    uint16_t gc_flags, gc_count;   // of rb_objspace_t
    uint16_t frame_size;           // of rb_control_frame_t
    uint16_t path, label, first_line, first_line_shift, code_location; // of rb_iseq_constant_body
    uint16_t lines, line_count, positions;                             // the same
    uint16_t line_size;                                                // of iseq_insn_info_entry
    uint16_t body_read;                                                // of rb_iseq_constant_body, what is read
    uint16_t text; // of RString: its bytes, where they are in the object itself
    bool hidden;   // its variables have no symbols; its readers of iseqs have
};

enum { AS_CRUBY_VM_PLACES = 4 };

struct as_cruby {
    _Atomic bool found;
    uint32_t unknown; // as in as_profile_head
    struct as_cruby_layout layout;
    _Atomic bool located; // the variables
    _Atomic uint32_t tries;
    uintptr_t vm_places[AS_CRUBY_VM_PLACES]; // each has the VM's address; 0: no more
    uintptr_t ec_variable;                   // of all threads; 0: each has its own
    uintptr_t ec_offset;                     // the thread's own, from its thread pointer; it wraps around
    bool stays;                     // the object that has it was there when the process started: nobody unloads it
    uintptr_t bias;                 // of this object
    uintptr_t start, end;           // the same
    uintptr_t code, code_end;       // of its machine code
    uintptr_t data, data_end;       // of its variables
    uintptr_t own_offset, own_size; // of a thread's own variables, likewise
    uintptr_t unwind;               // its .eh_frame_hdr
    uintptr_t secret;               // by which libc mangles addresses in a jmp_buf; 0: not known
    uint32_t turn;                  // and by how many bits it turns them around then, on aarch64
    _Atomic uintptr_t loop;         // the bytecode loop; 0: not yet known
    _Atomic uintptr_t loop_end;     // written first
    _Atomic uintptr_t exec;     // the function that keeps a tag for each call of the bytecode loop; 0: not yet known
    _Atomic uintptr_t exec_end; // written first
    _Atomic uint32_t key;       // of the threads, where they share ec_variable, + 1; 0: not yet known
};
extern struct as_cruby as_cruby;

// These values are the same in all releases.
enum {
    AS_CRUBY_TYPE = 0x1f,
    AS_CRUBY_STRING = 5,
    AS_CRUBY_ARRAY = 7,
    AS_CRUBY_IMEMO = 0x1a,
    AS_CRUBY_ELSEWHERE = 1 << 13
};
enum { AS_CRUBY_IMEMO_SHIFT = 12, AS_CRUBY_IMEMO_TYPE = 15, AS_CRUBY_ISEQ = 7 };
enum { AS_CRUBY_BODY = 16 };                           // of an iseq
enum { AS_CRUBY_SIZE = 4, AS_CRUBY_INSTRUCTIONS = 8 }; // of its body

// An execution context, and how it says that it is the calling thread's and may be read.
struct as_cruby_context {
    uintptr_t place, context; // where its address stands, and what is there; 0: nothing is known
    uintptr_t thread, native, vm, objspace;
    uint64_t since; // as as_recorder.readable_since
};

// ruby.c: takes the loader's lock. False: there may be one that is not there yet, or not any more: it has to be searched for again.
bool as_cruby_find(void);

// ruby_readers.c: whether the machine code of Ruby's own functions reads where the layout says. They are not called.
struct as_recorder_object;
bool as_cruby_readers_agree(const struct as_recorder_object *o, const struct as_cruby_layout *l);

// ruby_places.c: finds the bytecode loop by the code of one of its instructions.
void as_cruby_find_loop(uintptr_t instruction);
// Whether an exception that jumps there goes on in the function that calls the bytecode loop.
bool as_cruby_is_exec(uintptr_t label);
// Learns libc's secret from a jmp_buf of our own. 0: it is not as expected.
uintptr_t as_cruby_find_secret(void);
enum { AS_CRUBY_TURN = 17 };
static inline uintptr_t as_cruby_turned(uintptr_t mangled, uint32_t turn)
{
    return mangled >> turn | mangled << (-turn & 63);
}
static inline uintptr_t as_cruby_unmangle(uintptr_t mangled)
{
#if defined(__x86_64__)
    return as_cruby_turned(mangled, AS_CRUBY_TURN);
#else
    return as_cruby_turned(mangled, as_cruby.turn);
#endif
}
// The VM of the calling thread's execution context; 0: it is none. *own: as as_cruby_own_context().
uintptr_t as_cruby_vm_of(uintptr_t context, struct as_cruby_context *own);
// The words that say so, where all of them are readable.
static inline bool as_cruby_is_own(const struct as_cruby_layout *l, const struct as_cruby_context *own)
{
    return as_inner_word(own->thread + l->ec) == own->context &&
           (!l->native || as_inner_word(own->thread + l->native) == own->native) &&
           as_inner_word(own->native + l->id) == as_recorder_self() && as_inner_word(own->thread + l->vm) == own->vm &&
           as_inner_word(own->thread + l->blocking) == 0 &&
           as_inner_word(own->vm + l->main_thread) != 0 && // a VM that ends has no main thread, and then no heap
           as_inner_word(own->vm + l->objspace) == own->objspace;
}

// A thread's own context says whether a garbage collection is under way, and how many have begun.
enum { AS_CRUBY_DURING_GC = 1 << 5 };
static inline bool as_cruby_collects(const struct as_cruby_context *own)
{
    return as_inner_half(own->objspace + as_cruby.layout.gc_flags) & AS_CRUBY_DURING_GC;
}
static inline uint64_t as_cruby_gc_count(const struct as_cruby_context *own)
{
    return as_inner_word(own->objspace + as_cruby.layout.gc_count);
}

// ruby_context.c: which of libc's keys leads to the threads, + 1: by the calling thread. 0: it is none of Ruby's, or does not have the VM's
// lock.
uint32_t as_cruby_find_key(void);
// The calling thread, where all threads share the variable of their context; 0: it is none of Ruby's. The variable is another thread's
// unless this one has the VM's lock.
static inline uintptr_t as_cruby_keyed_thread(void)
{
    uint32_t key = atomic_load_explicit(&as_cruby.key, memory_order_relaxed);
    if (__builtin_expect(key == 0, 0) && (key = as_cruby_find_key()) == 0)
        return 0;
    return (uintptr_t)pthread_getspecific((pthread_key_t)(key - 1));
}
// Whether the variables are known: found by what they say of the calling thread.
bool as_cruby_locate(void);

// What is read of an execution context, and of a control frame.
enum { AS_CRUBY_STACK = 0, AS_CRUBY_STACK_SIZE = 8, AS_CRUBY_CURRENT = 16, AS_CRUBY_TAG = 24 };
enum { AS_CRUBY_FRAME_PC = 0, AS_CRUBY_FRAME_ISEQ = 16, AS_CRUBY_FRAME_ENVIRONMENT = 32, AS_CRUBY_FRAME_READ = 40 };

// ruby_context.c: the calling thread's execution context, if it may be read now; else 0. *own: how it says so.
uintptr_t as_cruby_own_context(struct as_cruby_context *own);

// Whether libruby is there: it stays, or the calling thread, whose own context this is, is in a function of Ruby's that
// has a tag on its C stack. All bytecode is run by such functions, and Ruby's variables are read only then.
static inline bool as_cruby_is_there(uintptr_t context)
{
    return as_cruby.stays || as_inner_word(context + AS_CRUBY_TAG) != 0;
}

// Another thread may be searching for Ruby anew, after a dlclose: a place is read once.
static inline uintptr_t as_cruby_vm_place(size_t i)
{
    return __atomic_load_n(&as_cruby.vm_places[i], __ATOMIC_RELAXED);
}

// 0: it ends, or the variables say different things.
static inline uintptr_t as_cruby_vm(void)
{
    uintptr_t place = as_cruby_vm_place(0);
    uintptr_t vm = place ? as_inner_word(place) : 0;
    for (size_t i = 1; vm && i < AS_CRUBY_VM_PLACES && (place = as_cruby_vm_place(i)) != 0; i++)
        if (as_inner_word(place) != vm)
            return 0;
    return vm;
}

// The same where all that it was found by is what it was, as it mostly is; 0 also where it is not.
static inline uintptr_t as_cruby_own_context_again(const struct as_cruby_context *own)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    if (!atomic_load_explicit(&as_cruby.located, memory_order_acquire) || own->context == 0 ||
        own->since != atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed) ||
        (as_cruby.ec_variable && as_cruby_keyed_thread() != own->thread) || as_inner_word(own->place) != own->context ||
        as_inner_word(own->context + l->thread) != own->thread || !as_cruby_is_own(l, own) ||
        !as_cruby_is_there(own->context) || as_cruby_vm() != own->vm)
        return 0;
    return as_cruby_collects(own) ? 0 : own->context;
}

// ruby_walk.c: as as_recorder_inner() (interpreters.h); the stack that `sp` is on is readable up to `end`.
bool as_cruby_walk(const struct as_recorder_thread *thread, uintptr_t sp, uintptr_t end, size_t same,
                   struct as_inner_walk *walk, uint64_t *hash);

// The same frames again, right after a walk for their hash alone. False: the thread has not kept them.
bool as_cruby_walk_again(const struct as_recorder_thread *thread, uintptr_t sp, struct as_inner_walk *walk);

// ruby_iseqs.c: a number for all that says which method or block an iseq is, and which lines it has. False: it is none. It is
// remembered until `gcs` is another number.
bool as_cruby_identify(uintptr_t iseq, uint64_t gcs, uint64_t *identity);

// The bytes of a String. False: it is none.
struct as_cruby_text {
    uintptr_t at, length;
};
bool as_cruby_text(uintptr_t string, struct as_cruby_text *text);
// The file that an iseq is of: where it is, if that is known, else what it is called.
bool as_cruby_file(uintptr_t body, struct as_cruby_text *text);
// The table of positions (iseq.c). For each of the first words of bytecode: how many lines' beginnings there are up to it, 7 bits each, 9
// to a word. Behind them blocks of 512 bits, each set where a line begins, with how many there are before the block, and before each
// of its words but the first.
enum { AS_CRUBY_PLAIN = 54, AS_CRUBY_PLAIN_EACH = 9, AS_CRUBY_PLAIN_BITS = 7 };
enum { AS_CRUBY_BLOCK = 512, AS_CRUBY_BLOCK_BYTES = 80, AS_CRUBY_BLOCK_RANKS = 8, AS_CRUBY_BLOCK_WORDS = 16 };
enum { AS_CRUBY_RANK_BITS = 9 };
// How many lines' beginnings there are up to a word of bytecode, which is one of the iseq's.
uint64_t as_cruby_rank(const struct as_cruby_text *positions, uint64_t word);
// The table of lines, and the one that says which line an instruction has: `length` bytes of each.
bool as_cruby_lines(uintptr_t body, struct as_cruby_text *lines, struct as_cruby_text *positions);

// What an iseq is, by its address. A place may be another iseq's after the next garbage collection.
struct as_cruby_known {
    _Atomic uint64_t iseq; // its address, and how many garbage collections there had been
    _Atomic uintptr_t body;
    _Atomic uint64_t check, identity; // `check` is of what the body has, too
};
enum { AS_CRUBY_KNOWN = 1 << 13 };

// The words that say which control frame it is. An instruction is one of the frame's iseq.
struct as_cruby_words {
    uintptr_t pc, environment;
    uint64_t flags; // the word that the environment begins with
};
// A control frame of the last walk.
struct as_cruby_seen {
    uintptr_t environment;
    uint64_t flags;
    uint64_t key;
    uint64_t hash;   // of this frame and all outer ones
    uint32_t rubies; // frames of iseqs up to this one
    bool of_c;
};
enum { AS_CRUBY_SEEN = 1 << 9 };
// The control frames of the thread's last walk, the outermost one first.
struct as_cruby_last {
    struct as_cruby_context own; // of the last walk, readable as long as all is
    uint64_t since;              // as as_recorder.readable_since: all that they name is readable
    uint64_t gcs;                // garbage collections
    uintptr_t end;               // of the VM's stack
    size_t count;
    size_t depth;  // control frames of the last walk itself; 0: not all of them are kept
    size_t filled; // frames that were inspected, and may be those of another walk beyond the first `count`
    uintptr_t pcs[AS_CRUBY_SEEN]; // of the frames; apart from them, as each allocation reads all of these
    struct as_cruby_seen frames[AS_CRUBY_SEEN];
};

// Its iseqs cannot have been freed, and what it read is readable still. `end`: of the VM's stack.
static inline bool as_cruby_is_current(const struct as_cruby_last *last, uint64_t gcs, uintptr_t end)
{
    return last->since == atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed) && last->gcs == gcs &&
           last->end == end;
}

static inline struct as_cruby_words as_cruby_words_of(const struct as_cruby_last *last, size_t i)
{
    return (struct as_cruby_words){last->pcs[i], last->frames[i].environment, last->frames[i].flags};
}

// A control frame is what it was.
static inline bool as_cruby_is_same(struct as_cruby_words w, uintptr_t frame)
{
    return as_inner_word(frame + AS_CRUBY_FRAME_PC) == w.pc &&
           as_inner_word(frame + AS_CRUBY_FRAME_ENVIRONMENT) == w.environment &&
           as_inner_word(w.environment) == w.flags;
}

// 0: the instruction of the frame is that of the last walk's frame.
static inline uintptr_t as_cruby_differs(const struct as_cruby_last *last, uintptr_t frame, size_t i)
{
    return as_inner_word(frame + AS_CRUBY_FRAME_PC) ^ last->pcs[i];
}

// How many of the last walk's frames, from the outermost one on, are what they were; those up to `until` are inspected,
// but for the first `same`, which have been (more than the last walk has: none has been). Their instructions decide:
// the same instruction of a frame that has not moved has called the same iseq, and the frame's hash has the rest. What
// an instruction does not say is whether the call went through C: then the C stack has more on it, which is in the
// signature.
static inline size_t as_cruby_count_same(const struct as_cruby_last *last, uintptr_t until, size_t same)
{
    enum { TOGETHER = 4 }; // frames, with one branch: a branch takes longer than to read a frame
    const uintptr_t size = as_cruby.layout.frame_size;
    const uintptr_t known = last->end - last->count * size, to = until > known ? until : known;
    same = same <= last->count ? same : 0;
    uintptr_t at = last->end - (same + 1) * size;
    for (; at - to + size >= TOGETHER * size; same += TOGETHER, at -= TOGETHER * size)
        if (as_cruby_differs(last, at, same) | as_cruby_differs(last, at - size, same + 1) |
            as_cruby_differs(last, at - 2 * size, same + 2) | as_cruby_differs(last, at - 3 * size, same + 3))
            break;
    for (; at >= to && as_cruby_differs(last, at, same) == 0; at -= size)
        same++;
    return same;
}

// ruby_walk.c: the frames up to `until` are those of the thread's last walk from now on, as the first `same` of them are. The last walk has
// to be current. False: one is not what it should be, or they are too many.
bool as_cruby_walk_outer(struct as_cruby_last *last, size_t same, uintptr_t until);

static inline struct as_cruby_known *as_cruby_known_at(uintptr_t iseq)
{
    return &as_recorder.iseqs[(iseq >> 3 ^ iseq >> 15) & as_recorder.iseqs_mask];
}

// All of the body that says, without being followed, whether it is the one that it was.
static inline uint64_t as_cruby_print_of(uintptr_t body)
{
    const struct as_cruby_layout *l = &as_cruby.layout;
    uint64_t print = as_recorder_mix_in(body, as_inner_word(body));
    print = as_recorder_mix_in(print, as_inner_word(body + AS_CRUBY_INSTRUCTIONS));
    print = as_recorder_mix_in(print, as_inner_word(body + l->path));
    print = as_recorder_mix_in(print, as_inner_word(body + l->label));
    print = as_recorder_mix_in(print, as_inner_word(body + l->first_line));
    print = as_recorder_mix_in(print, as_inner_word(body + l->code_location));
    return as_recorder_mix_in(print, as_inner_word(body + l->lines));
}

static inline bool as_cruby_remembers(uintptr_t iseq, uint64_t gcs, uintptr_t *body, uint64_t *identity)
{
    const struct as_cruby_known *known = as_cruby_known_at(iseq);
    if (atomic_load_explicit(&known->iseq, memory_order_relaxed) != as_recorder_mix_in(gcs, iseq))
        return false;
    *body = as_inner_word(iseq + AS_CRUBY_BODY);
    if (atomic_load_explicit(&known->body, memory_order_relaxed) != *body)
        return false;
    *identity = atomic_load_explicit(&known->identity, memory_order_relaxed);
    return (atomic_load_explicit(&known->check, memory_order_relaxed) ^ *identity) == as_cruby_print_of(*body);
}

// ruby_recent.c: as as_python_recall().
uint32_t as_cruby_recall(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                         struct as_recorder_attempt *attempt);
// Where the thread's last walk can be recalled: its innermost frames go into the entry. False: it cannot.
struct as_recorder_recent;
bool as_cruby_keep_recent(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                          struct as_recorder_recent *recent, uint64_t *hash);

// ruby_names.c: the frame as the tables keep it.
uint64_t as_cruby_name(struct as_inner_walk *walk, const struct as_inner_frame *frame);

#pragma GCC visibility pop
