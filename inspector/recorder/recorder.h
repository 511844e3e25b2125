// SPDX-License-Identifier: MIT
// The recorder inside the process: who allocated each chunk that begins on a watched page. malloc's side is hooked, free() never is: a
// place that is used again is written again. Internal to recorder/; only enable.h is for others.
//
// The units, each above those that it uses:
//
//   random.c            distances between samples, and what a sample stands for
//   rates.c             reads $ARENASCOPE_PROFILE
//   chains.c            hash tables of what only grows (chains.h)
//   table_memory.c      the mapping with all tables
//   readable.c          what memory may be read
//   thread_id.c         which thread calls
//   recorder_threads.c  each thread's state, and the stack that it runs on
//   code_objects.c      symbols and relocations of a loaded object
//   loader.c            the loader's lock, for which malloc must not wait for ever
//   module_list.c       the loaded modules, for the unwinder and in the tables
//   interp_frames.c     the frames of interpreters (interp_frames.h)
//   python/             CPython's (python.h)
//   ruby/               Ruby's (ruby.h)
//   interpreters.c, interpreters.h  which interpreters there are
//   signature.c         what recognises a context
//   stack_layouts.c     where on a stack it is
//   hot_path.h          the inline parts of what each allocation passes through
//   stack_memo.h        what a thread's last allocations have found
//   context_memo.c      the contexts that a thread has been in lately (context_memo.h)
//   merge_frames.c      the frames of a stack, interpreted ones and C's (merge_frames.h)
//   stack_trie.c        the tree of stacks
//   contexts.c          from a stack to the id of its context
//   sample.c            writes down one allocation
//   trace_events.h, trace_events.c  the events of a trace, in buffers of each thread
//   trace_buffers.c     the buffers of a trace
//   trace_drain.c       writes the buffers into the trace's file
//   hooks.c             what stands in the slots instead of malloc and its kin
//   got_hooks.c         writes the slots
//   entry_hooks.c       what stands at the entries of these functions instead, where that was asked for (entry_page.h)
//   enable.c            on, off, and fork()
#pragma once

#include "base/error.h"
#include "profile/tables.h"
#include "recorder/chains.h"
#include "recorder/entry_page.h"
#include "unwind/unwind.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden) // of what is declared, too: else its address is read from a table each time

enum {
    AS_RECORDER_THREADS = 4096, // known at the same time, or one after another at different addresses
    AS_RECORDER_DEPTH = AS_PROFILE_DEPTH,
    // Return addresses by which a context is recognised, and as many frame pointers; fewer where an interpreter's frames are compared, too.
    AS_RECORDER_SIGNATURE = 32,
    AS_RECORDER_INNER_SIGNATURE = 16,
    AS_RECORDER_GROUPS = AS_RECORDER_SIGNATURE / 4,
    AS_RECORDER_INNER_GROUPS = AS_RECORDER_INNER_SIGNATURE / 4,
};

// A thread, known by its thread pointer: no thread-local variable (for which the loader needs a lock, and room), and nothing to be done
// when a thread ends. The next one at the same address takes the state over.
struct as_recorder_thread {
    _Atomic uintptr_t pointer; // 0: free
    int64_t until;             // bytes until the next sample
    uintptr_t low, high;       // of the thread's own stack [low, high) is readable; low 0: not yet known
    _Atomic uintptr_t busy;    // stack pointer of the hook that is at work; 0: none is
    uint32_t hits;             // contexts found by their signature
    uint16_t index;
    bool main;
    bool beside;                     // the stack of a coroutine was found right below its own
    const volatile uint32_t *tid_at; // where libc keeps its id
    uint32_t tid;                    // what was there when it was named
    uint16_t name;                   // its place in the tables' threads; 0: it is not known
    uint8_t walk;                    // which of the walks it has taken, + 1; 0: none
    uintptr_t foreign;         // a stack pointer that was not on its own: pages near this one are not asked for again
    _Atomic uintptr_t reading; // the list of modules in use; nobody may free it
    struct as_recorder_last *before; // what its last allocations have found; NULL: others came first
    uintptr_t page;                  // of its last chunk whose slot was found at once; 0: there is none
    _Atomic uint32_t *slots;         // of this page's chunks
    uint64_t random;
    // The fields below belong to a trace. `at` is between the words of `buffer`; both are read by the writer's thread.
    _Atomic(uint64_t *) at;
    uint64_t *end;
    _Atomic(struct as_recorder_buffer *) buffer; // NULL: none is free
    uint64_t last;                               // time of its last event
    _Atomic uint64_t lost_allocations, lost_frees;
    uint32_t buffers; // taken so far
} __attribute__((aligned(128)));

// What one thread has written of a trace, and what is one block of its file.
struct as_recorder_buffer {
    _Atomic uint32_t next; // the index + 1 of another in the same list
    uint32_t thread;
    uint32_t number;  // of the thread's buffers before this one
    uint32_t filled;  // words, once it is full
    uint32_t drained; // words, by the writer's thread
    uint32_t reserved[3];
    uint64_t words[];
};

// Where the words of a signature were found the last time that this caller stood at this depth, and contexts that were recognised so
// (hot_path.h): a line of a processor's cache for these, one for what is compared where an interpreter's frames are, too, and one for more.
enum { AS_LAYOUT_NEAR = 4, AS_LAYOUT_WAYS = 8, AS_LAYOUT_PARTS = AS_RECORDER_GROUPS / AS_RECORDER_INNER_GROUPS };
// Offsets of return addresses; of frame pointers, which count from the stack pointer.
enum { AS_LAYOUT_ADDRESSES, AS_LAYOUT_FRAMES, AS_LAYOUT_KINDS };
_Static_assert(AS_LAYOUT_PARTS == 2, "what hot_path.h compares");
struct as_recorder_layout {
    _Atomic uint64_t key; // 0: it is being written
    _Atomic uint64_t shape;
    _Atomic uint64_t seed;                 // a hash of the shape and the offsets
    _Atomic uint64_t others;               // a bit for each context that is not near any more, but among all signatures
    _Atomic uint64_t near[AS_LAYOUT_NEAR]; // as in as_recorder.signatures
    _Atomic uint64_t groups[AS_LAYOUT_PARTS][AS_LAYOUT_KINDS][AS_RECORDER_INNER_GROUPS];
} __attribute__((aligned(64)));

struct as_recorder_scratch {
    uintptr_t pcs[AS_RECORDER_DEPTH];
    uintptr_t ends[AS_RECORDER_DEPTH];      // of stack frames
    uintptr_t slots[AS_RECORDER_SIGNATURE]; // of the first return addresses
};

struct as_recorder_rates {
    uint32_t page_shift; // one page in 1 << page_shift
    uint64_t mean;       // bytes; 0: none
    uint64_t memory;     // bytes at most
    uint64_t buffers;    // bytes of a trace's buffers
};

// The mapping's parts. Written before the hooks are in place, and constant while they are.
struct as_recorder {
    _Atomic bool on;
    _Atomic bool profiling; // every malloc and free
    _Atomic bool threaded;  // more than one thread has been here
    bool ticks;             // the processor's counter is the record's clock
    bool every;             // the context of each allocation is searched for: time counts for more than memory
    bool all_pages;         // are watched
    _Atomic bool signs_all; // all return addresses of a stack decide, not only the innermost ones
    uint32_t page_shift, block_shift; // bytes of a page, and of its slots
    uint32_t page_run;                // of the table of pages
    uint64_t watched;                 // a page is watched if its hash is not above
    uint64_t large, mean;
    struct as_profile_head *head;
    struct as_recorder_thread *threads;
    struct as_recorder_scratch *scratch;
    struct as_recorder_layout *layouts;
    uint64_t most_layouts;          // that are there at the same time
    _Atomic uint64_t layouts_taken; // the next one lies after so many, or again in the place of the first
    _Atomic uint64_t (*layout_lines)[AS_LAYOUT_WAYS];
    _Atomic uint64_t layout_mask; // of so many lines, less one; it grows
    _Atomic uint64_t *signatures;
    _Atomic uint64_t signature_mask; // of so many, less one; it grows
    uint64_t most_signatures;        // a power of two
    struct as_recorder_chains frame_chains, branch_chains, context_chains, function_chains;
    _Atomic uint64_t *branch_filter; // of the branches that were added (stack_trie.c); NULL: there is none
    uint64_t branch_filter_mask;     // of so many bits, less one
    struct as_unwind_cache *rows;
    _Atomic uint64_t *pages;
    uint8_t *blocks;
    _Atomic uint32_t *large_slots;
    struct as_profile_context *contexts;
    struct as_profile_sampled *sampled;
    uint64_t *frames;
    uint32_t *stacks;
    uint32_t *frame_links; // from each frame to another one with the same hash
    struct as_profile_module *modules;
    struct as_profile_function *functions;
    char *texts;
    struct as_profile_thread *threads_named;
    struct as_inner_walk *walks;
    struct as_inner_known *names; // of lines of interpreted code
    struct as_cruby_known *iseqs;
    uint64_t names_mask, iseqs_mask, readable_mask; // of so many, less one
    struct as_recorder_last *lasts;
    uint32_t last_count;
    _Atomic uint32_t lasts_taken;
    _Atomic uintptr_t *readable;     // pages of interpreters' memory that were asked for, + 1
    _Atomic uint64_t readable_since; // milliseconds
    uint64_t page_mask;
    // This is the epoch of the modules: signatures of another one are not found. One number and the next differ in their
    // upper bits, too: what is mixed with it, an address of code, differs in the lower ones alone.
    _Atomic uint64_t epoch;
    char *buffers;           // of a trace
    uint32_t *stack_numbers; // of each stack, in a trace's file; 0: it is not there. For the writer's thread
    uint32_t buffer_count;
    _Atomic uint64_t missed; // events of a trace: the thread had no state, or had been interrupted in the recorder
    uint64_t allocated;      // bytes that this process has allocated, by its samples, in earlier profiles, too
    uintptr_t descriptor;    // bytes by which a thread's descriptor is below its pointer: of x86-64 0
    int64_t tid_offset;      // from a thread pointer to where libc keeps the thread's id; INT64_MAX: it is not known
    uint32_t hooks;          // that are put into slots: of a profile all but free()'s
    uintptr_t thread_start;  // the outermost return address of libc's threads; 0: it is not known
    uintptr_t main_pointer,
        main_high; // thread pointer of the main thread (0: not known), and an address above its frames
};
extern struct as_recorder as_recorder;

// Which of the mapping's walks and threads' states are taken. Written while others read the parts, which allocations need: on lines of
// their own.
struct as_recorder_taken {
    _Atomic uint64_t walks; // a bit for each
    // A bit for each that may have been taken. No page of the others is touched: a child of fork() would be slower by each.
    _Atomic uint64_t threads[AS_RECORDER_THREADS / 64];
} __attribute__((aligned(64)));
extern struct as_recorder_taken as_recorder_taken;

// The shift of a page is known on x86-64: each allocation shifts by it, some by more than one.
static inline uint32_t as_recorder_page_shift(void)
{
#if defined(__x86_64__)
    return 12;
#else
    return as_recorder.page_shift;
#endif
}

// malloc gives a chunk at most so much larger than asked for: a header, alignment and a rest that is no chunk; as a mapping of its own, up
// to a page. Where an alignment is asked for, too, it may be any size.
static inline size_t as_recorder_rounding(void)
{
    return ((size_t)1 << as_recorder_page_shift()) + 48;
}

enum { AS_RECORDER_LAYOUTS = 1 << 15, AS_RECORDER_LAYOUT_LINES = 1 << 13, AS_RECORDER_FIRST_LINES = 1 << 6 };
enum { AS_RECORDER_SIGNATURES = 1 << 20, AS_RECORDER_SIGNATURE_WAYS = 4 };
enum { AS_RECORDER_WALKS = 64, AS_RECORDER_FUNCTIONS = 1 << 16, AS_INNER_NAMES = 1 << 12 };
enum { AS_RECORDER_CHECK = 1024 }; // one in so many recognised contexts is unwound nevertheless

#define AS_RECORDER_COUNT(name) __atomic_fetch_add(&as_recorder.head->counts.name, 1, __ATOMIC_RELAXED)

// random.c: a number of bytes, exponentially distributed; and how many objects like it one sample stands for, in 1/1024.
int64_t as_recorder_distance(uint64_t *random, uint64_t mean);
uint64_t as_recorder_weight(uint64_t size, uint64_t mean);

// rates.c: "1", "exact", or a list such as "pages=64,bytes=512K,memory=256M". AS_USAGE: what is wrong with it.
bool as_recorder_parse(const char *text, struct as_recorder_rates *rates, struct as_error *err);

// table_memory.c: for a profile, or a trace. False: no memory. A second call empties the tables.
bool as_recorder_map(const struct as_recorder_rates *rates, bool traced);
// A mapping that has no neighbour with which the kernel would join it: a reader searches for a head where a mapping begins. The kernel
// shows `name` where it can. NULL: no memory.
char *as_recorder_map_alone(uint64_t bytes, const char *name);
// Gives their memory back. The addresses stay: a thread may be about to inspect there, and finds nothing.
void as_recorder_unmap(void);
// The slot for a chunk, made where it is missing if `make`; NULL: there is none, or no room.
_Atomic uint32_t *as_recorder_slot(uintptr_t chunk, bool make);

// The next state of a thread from `at` on that has been taken; AS_RECORDER_THREADS: none has.
static inline size_t as_recorder_next_thread(size_t at)
{
    for (; at < AS_RECORDER_THREADS; at = (at | 63) + 1) {
        uint64_t taken = atomic_load(&as_recorder_taken.threads[at / 64]) >> at % 64;
        if (taken != 0)
            return at + (size_t)__builtin_ctzll(taken);
    }
    return AS_RECORDER_THREADS;
}

// recorder_threads.c: the calling thread's state; NULL: there is no room. `find` makes none.
struct as_recorder_thread *as_recorder_thread_find(uintptr_t pointer);
struct as_recorder_thread *as_recorder_thread_make(uintptr_t pointer);
// The readable part of the stack that `sp` is on. *own: it is the thread's own, and its end is that of the thread's outermost frame.
struct as_unwind_stacks as_recorder_stacks(struct as_recorder_thread *thread, uintptr_t sp, bool *own);

// What as_recorder_stacks() has just taken for more of the thread's own stack, known from `low` on before, is another one: it may go away
// alone.
void as_recorder_stack_is_another(struct as_recorder_thread *thread, uintptr_t sp, uintptr_t low);

// Whether a signal handler has left the recorder, which the thread entered when its stack pointer was `busy`, by
// longjmp: the thread is there no more. `sp`: its stack pointer now. False where that is not sure. Keeps errno.
bool as_recorder_was_left(const struct as_recorder_thread *thread, uintptr_t busy, uintptr_t sp);

// Where libc keeps a thread's id: the kernel tells it, or it is known, and is there. Of the calling thread, which is
// libc's. And where libc's threads start, if this is not the main thread.
void as_recorder_threads_begin(void);
// Another thread may be at the same address. Only as long as it is the one that was named, its contexts are its own.
void as_recorder_thread_name(struct as_recorder_thread *thread);
// Makes the calling thread's state, with its name, before its first allocation: it may be in a sandbox by then.
void as_recorder_thread_introduce(void);
// The calling thread's id: libc's word for it, once the kernel has said that this is the id; a child of vfork() has its parent's. Else the
// kernel's, which a sandbox may end the process for.
uint32_t as_recorder_own_id(void);

// errno is not kept.
bool as_recorder_is_readable(uintptr_t address);

// How many of a table's places have been taken.
static inline uint64_t as_recorder_used(const struct as_profile_table *table)
{
    return __atomic_load_n(&table->used, __ATOMIC_RELAXED);
}

// Takes so many places of a table. UINT64_MAX: it has not so many left. (Nothing is ever given back: others may have taken what is behind.)
static inline uint64_t as_recorder_take_places(struct as_profile_table *table, uint64_t count)
{
    uint64_t used = as_recorder_used(table);
    do {
        if (used > table->size || count > table->size - used)
            return UINT64_MAX;
    } while (!__atomic_compare_exchange_n(&table->used, &used, used + count, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return used;
}

// loader.c: a handler that leaves by siglongjmp would leave what the thread has taken behind, the program's own lock among it. Blocks the
// signals of the calling thread that have handlers, as a rule, and has them back as they were. Both keep errno.
struct as_recorder_signals {
    uint64_t mask; // as the kernel has it
    bool blocked;  // a sandbox may not allow it
};
void as_recorder_block_signals(struct as_recorder_signals *before);
void as_recorder_restore_signals(const struct as_recorder_signals *before);
// Finds the loader's lock, which the caller may wait for. False: it was held all the time, or has been since another thread has waited
// for a second. (Where it is not found, the result is true, and dl_iterate_phdr waits.) Signals are blocked from the one to the other.
void as_recorder_loader_find(void);
bool as_recorder_loader_enter(struct as_recorder_signals *before);
void as_recorder_loader_leave(const struct as_recorder_signals *before);
// Less than a second. errno is not kept.
void as_recorder_nap(long nanoseconds);
bool as_recorder_loader_is_found(void);
void as_recorder_loader_in_child(void);

// module_list.c: loads the list first.
bool as_recorder_modules_load(void);
// And again where the loader has changed something: after dlclose. errno is not kept.
void as_recorder_modules_closing(void);
void as_recorder_modules_closed(bool changed);
// And when a stack has been unwound, if it leads through code of no module (0: it does not), or if there may be other code now in the
// place of a module. (A page of such code is asked for again after 10 ms: it may be a compiler's.) False: there may be, and nobody
// could inspect.
bool as_recorder_modules_doubt(const struct as_unwind_modules *modules, uintptr_t unknown);
// What was learned is not found any more.
void as_recorder_modules_unlearn(void);
// as_python_watch(), with signals blocked as long as the loader's lock is held.
void as_recorder_modules_watch(bool in);
const struct as_unwind_modules *as_recorder_modules_take(struct as_recorder_thread *thread);
void as_recorder_modules_leave(struct as_recorder_thread *thread);
// The place of a return address as the tables keep it.
// `last` is the module of the one before.
uint64_t as_recorder_frame(const struct as_unwind_modules *modules, const struct as_unwind_module **last, uintptr_t pc);
void as_recorder_modules_in_child(void);

// signature.c: the signature of the frames that the thread has just unwound, whose layout is kept, and of an
// interpreter's: their hash (0: there are none), and themselves (NULL: they are not known). 0: they cannot be
// recognised.
struct as_inner_walk;
uint64_t as_recorder_make_signature(const struct as_recorder_thread *thread, uint64_t key,
                                    const struct as_unwind_modules *modules, const struct as_unwind_registers *caller,
                                    uintptr_t depth, uint64_t inner, const struct as_inner_walk *walk, size_t count,
                                    struct as_recorder_layout **layout);
// outer_frames.c: a signature to which outer frames are added, as a layout's shape says (hot_path.h). 0: they are not those of the thread's
// last unwinding.
uint64_t as_recorder_outer_signature(const struct as_recorder_thread *thread, uint64_t shape,
                                     const struct as_unwind_registers *caller, uint64_t signature);
void as_recorder_learn(struct as_recorder_layout *layout, uint64_t signature, uint32_t id);

// stack_layouts.c: where the layout is kept, unless it was already.
struct as_recorder_layout *as_recorder_keep_layout(const struct as_recorder_layout *layout);

// stack_trie.c: the stack `caller` (0: none) with frames[0], or with all of the frames, where that one is not there
// yet: *count says how many it is. *fresh: nobody has been on it. 0: there is no room.
uint32_t as_recorder_find_or_add_stacks(uint32_t caller, const uint64_t *frames, size_t *count, bool *fresh);
// Whether these are the frames of the stack, the outermost one first.
bool as_recorder_has_frames(uint32_t stack, const uint64_t *frames, size_t count);

// What a search for a context has found that was not recognised: whether the frames of interpreters could be read, and their hash.
struct as_recorder_attempt {
    bool recognisable;
    bool outdated; // perhaps the thread keeps the context, by words that do not hold any more (context_memo.h)
    size_t same;   // so many of Ruby's outermost frames are those of the thread's last walk; 0: it is not known
    uint64_t inner;
};

// contexts.c: the id of the context in which `caller` allocates; AS_PROFILE_LOST: there is no room,
// or nobody could say which modules there are. `attempt`: of the snapshot right before; NULL: there was none. Keeps errno.
uint32_t as_recorder_context(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                             const struct as_recorder_attempt *attempt);

// sample.c: what has just been allocated; size as asked for; where the caller goes on, and its stack and frame pointers. Keeps errno.
void as_recorder_write(struct as_recorder_thread *thread, void *memory, size_t size, uintptr_t pc, uintptr_t sp,
                       uintptr_t fp);

// The same for an allocation whose context is known already: its slot and its sample, where they are due. By the thread that has entered.
void as_recorder_write_known(struct as_recorder_thread *thread, void *memory, size_t size, uint32_t id);

// An allocation that no sample stands for, as its thread has no state, or has not entered: it is counted as it is, without a stack.
void as_recorder_write_missed(size_t size);

// trace_events.c: an event of a trace; `kind` is one of as_trace_event_kind. Both keep errno. `before`: a time before libc's function was
// called, which has returned; 0: it has not been called yet.
void as_recorder_note(uint32_t kind, void *memory, size_t size, size_t alignment, uintptr_t pc, uintptr_t sp,
                      uintptr_t fp);
void as_recorder_note_free(uint32_t kind, void *memory, uint64_t before, uintptr_t sp);

// trace_buffers.c: false: no memory. The profile's tables are there already. Room for a further event of this thread, which has none left;
// false: no buffer is free.
bool as_recorder_buffers_map(uint64_t bytes);
bool as_recorder_next_buffer(struct as_recorder_thread *thread);
// The trace is over in a process that is not the one in which it was begun.
void as_recorder_end_in_child(void);
// For the writer's thread: the full buffers, oldest first (by `next`); a buffer that it has written. It sleeps for so long, or until
// enough buffers are full.
struct as_recorder_buffer *as_recorder_full_buffers(void);
struct as_recorder_buffer *as_recorder_buffer_at(uint32_t next);
void as_recorder_buffer_done(struct as_recorder_buffer *buffer);
void as_recorder_buffers_wait(uint64_t nanoseconds);
// Whether all of them have been used: then those of idle threads are missing. In this order: one or more are asked
// back, there is a barrier (false: the kernel has none), and each is taken back. The result is how many words are in
// it; UINT32_MAX: the thread has it still, or hands it over.
bool as_recorder_buffers_scarce(void);
void as_recorder_buffer_ask_back(struct as_recorder_thread *thread);
bool as_recorder_buffers_barrier(void);
uint32_t as_recorder_buffer_take_back(struct as_recorder_thread *thread, struct as_recorder_buffer *buffer);
void as_recorder_buffers_wake(void);

// trace_drain.c: a file that is open and empty, to which all goes from now on. It is written by one thread at a time. False: as
// of the next one.
bool as_recorder_drain_begin(int file);
// Writes what is full; `all`: what is not, too, and what belongs to it. False: the file takes no more, and errno says why. (ENOSPC: or
// less than a twentieth of its file system would be free.)
bool as_recorder_drain(bool all);
void as_recorder_drain_end(void);

// hooks.c: what stands in a slot, and what did.
struct as_recorder_hook {
    const char *name;
    uintptr_t hook;
    _Atomic uintptr_t real; // 0: libc has no such function
};
enum { AS_RECORDER_HOOKS = 10 }; // the last one is free()'s
extern struct as_recorder_hook as_recorder_hooks[AS_RECORDER_HOOKS];
// Waits until each thread has left the recorder, or has been in it another time, since the caller has changed something: all see the
// change. False: after so many naps of a millisecond one has not, as it is stopped, perhaps. errno is not kept.
bool as_recorder_hooks_left(int naps);
void as_recorder_name_hooks(void); // fills in names and hooks
// What the hooks of dlclose do.
typedef int as_recorder_dlclose(void *);
int as_recorder_close(as_recorder_dlclose *real, void *library);

// got_hooks.c: finds libc's functions. AS_UNSUPPORTED: there is none that is known.
bool as_recorder_find_libc(struct as_error *err);
// Puts the hooks in, or takes them out. `running`: other threads may be loading objects meanwhile. False: there is no slot of malloc's.
bool as_recorder_write_slots(bool in, bool running);
// Where a hook's function is, once libc's were found, and the size of its code; 0: there is none.
uintptr_t as_recorder_function(size_t index, size_t *size);

// entry_hooks.c: makes the page for hooks at entries, or finds it again. AS_UNSUPPORTED: there can be none here.
bool as_recorder_map_entries(uint64_t *page, struct as_error *err);

static inline uintptr_t as_recorder_pointer(void)
{
#if defined(__x86_64__)
    uintptr_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

// What libc calls the thread (pthread_self): where its descriptor is. Of a thread that is libc's.
static inline uintptr_t as_recorder_self(void)
{
#if defined(__x86_64__)
    return as_recorder_pointer();
#else
    return as_recorder_pointer() - as_recorder.descriptor;
#endif
}

#pragma GCC visibility pop
