// SPDX-License-Identifier: MIT
// Preloaded: at each malloc the stack as our tables have it is compared with what libgcc's unwinder says. At the end the counts are
// written to the file $UNWIND_TRUTH, with the first differences; .PID is added for each process.
//   UNWIND_TRUTH_EVERY   one in so many mallocs (1)
//   UNWIND_TRUTH_CACHE   the directory of tables (none)
#define _GNU_SOURCE
#include "unwind/unwind.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

enum { MOST_STACK = 64 << 20, MOST = 20000, ENTRIES = 4096, SHOWN = 40 };

extern void *__libc_malloc(size_t size);                // NOLINT
extern void *__libc_calloc(size_t count, size_t size);  // NOLINT
extern void *__libc_realloc(void *memory, size_t size); // NOLINT

struct trace {
    uintptr_t pcs[MOST];
    size_t count;
    bool past; // the frame of the hook's caller has been met
    uintptr_t from;
};

static __thread bool busy __attribute__((tls_model("initial-exec")));
static __thread uintptr_t stack_end __attribute__((tls_model("initial-exec")));
static __thread unsigned long turn __attribute__((tls_model("initial-exec")));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready;
static unsigned long every = 1;
static struct as_unwind_modules *modules;
static struct as_unwind_cache *rules;
static struct trace theirs;
static uintptr_t ours[MOST], slots[MOST];
static unsigned long stacks, complete, equal, libgcc_cut, shown, frames, wrong_slots, wrong_complete, further;
static unsigned long wrong_again;
static struct as_unwind_last last;
static uintptr_t again[AS_UNWIND_MOST], slots_again[AS_UNWIND_MOST];
static FILE *out;
static const char *directory;

static void begin(void)
{
    const char *name = getenv("UNWIND_TRUTH");
    const char *number = getenv("UNWIND_TRUTH_EVERY");
    char path[4096];
    directory = getenv("UNWIND_TRUTH_CACHE");
    every = number ? strtoul(number, NULL, 10) : 1;
    rules = __libc_calloc(1, AS_UNWIND_CACHE_BYTES(ENTRIES));
    rules->mask = ENTRIES - 1;
    snprintf(path, sizeof path, "%s.%d", name ? name : "/dev/null", getpid());
    out = fopen(path, "we");
    modules = as_unwind_modules_load(NULL, directory);
    ready = out && modules;
}

static void refresh(void)
{
    if (!as_unwind_modules_stale(modules))
        return;
    struct as_unwind_modules *before = modules;
    modules = as_unwind_modules_load(before, directory);
    as_unwind_modules_free(before, modules);
}

// The end of the mapping that the stack is in. pthread_getattr_np would deadlock: it allocates while it holds the thread's lock.
static uintptr_t find_end(uintptr_t sp)
{
    char line[512];
    uintptr_t start;
    uintptr_t end;
    uintptr_t found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && sp >= start && sp < end)
            found = end;
    if (maps)
        fclose(maps);
    return found;
}

static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *argument)
{
    struct trace *trace = argument;
    uintptr_t pc = _Unwind_GetIP(context);
    if (trace->past && trace->count < MOST)
        trace->pcs[trace->count++] = pc;
    trace->past |= pc == trace->from;
    return trace->count < MOST ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static void show(const char *what, size_t count, bool whole)
{
    if (shown++ >= SHOWN)
        return;
    fprintf(out, "%s: ours %zu (complete %d), libgcc's %zu\n", what, count, whole, theirs.count);
    for (size_t i = 0; i < (count > theirs.count ? count : theirs.count) && i < 200; i++) {
        uintptr_t our = i < count ? ours[i] : 0;
        uintptr_t their = i < theirs.count ? theirs.pcs[i] : 0;
        const struct as_unwind_module *module = as_unwind_module_at(modules, their ? their : our);
        fprintf(out, "  %c %zu %#lx %#lx module %#lx + %#lx\n", our == their ? ' ' : '*', i, our, their,
                module ? module->bias : 0, module ? (their ? their : our) - module->bias : 0);
    }
}

// What was unwound from the stack before on, whichever it was. A thread of another stack begins anew.
static void compare_again(const struct as_unwind_registers *start, size_t count, bool whole)
{
    bool whole_again = false;
    struct as_unwind_stacks limits = {.end = stack_end};
    size_t most = AS_UNWIND_MOST - 1, expected = count < most ? count : most;
    const struct as_unwind_places places = {.slots = slots_again, .slot_count = most};
    size_t found = as_unwind_frames(modules, start, &limits, rules, &last, again, &places, most, &whole_again);
    bool same = found == expected && memcmp(again, ours, found * sizeof *again) == 0 &&
                memcmp(slots_again, slots, found * sizeof *slots) == 0 && whole_again == (whole && count <= most);
    wrong_again += !same;
    if (!same && shown++ < SHOWN)
        fprintf(out, "again: %zu frames (complete %d), not %zu (%d)\n", found, whole_again, expected, whole);
}

static void compare(const struct as_unwind_registers *start)
{
    bool whole = false;
    struct as_unwind_stacks limits = {.end = stack_end};
    size_t count = as_unwind_stack(modules, start, &limits, rules, ours, slots, MOST, &whole);
    theirs.count = 0;
    theirs.past = false;
    theirs.from = start->pc;
    _Unwind_Reason_Code reason = _Unwind_Backtrace(take, &theirs);
    stacks++;
    frames += count;
    compare_again(start, count, whole);
    for (size_t i = 0; i < count; i++)
        wrong_slots += slots[i] && *(uintptr_t *)slots[i] != ours[i];
    if (reason != _URC_END_OF_STACK || !theirs.past) {
        libgcc_cut++;
        return;
    }
    // libgcc ends with a zero, or with the frame of which nothing is known, as we do without it.
    while (theirs.count > 0 && theirs.pcs[theirs.count - 1] == 0)
        theirs.count--;
    // Code without frame information, as V8's builtins are: libgcc takes it for the outermost frame, we go on by its frame pointer.
    size_t known = theirs.count;
    bool cut = known > 0 && !_Unwind_FindEnclosingFunction((void *)theirs.pcs[known - 1]);
    if (cut && count > known && memcmp(ours, theirs.pcs, known * sizeof *ours) == 0) {
        further++;
        return;
    }
    bool same = count == theirs.count && memcmp(ours, theirs.pcs, count * sizeof *ours) == 0;
    equal += same;
    complete += whole;
    wrong_complete += whole && !same;
    if (!same || !whole)
        show(same ? "not complete" : whole ? "WRONG" : "different", count, whole);
}

static void check(struct as_unwind_registers start)
{
    if (busy || turn++ % every != 0)
        return;
    busy = true;
    if (start.sp >= stack_end || stack_end - start.sp > MOST_STACK)
        stack_end = find_end(start.sp);
    if (pthread_mutex_trylock(&lock) == 0) {
        if (!ready)
            begin();
        if (ready) {
            refresh();
            compare(&start);
        }
        pthread_mutex_unlock(&lock);
    }
    busy = false;
}

static void __attribute__((destructor)) finish(void)
{
    busy = true;
    if (!ready)
        return;
    fprintf(
        out,
        "stacks %lu equal %lu complete %lu wrong_complete %lu libgcc_cut %lu frames %lu wrong_slots %lu further %lu "
        "wrong_again %lu\n",
        stacks, equal, complete, wrong_complete, libgcc_cut, frames, wrong_slots, further, wrong_again);
    fprintf(out, "modules %zu missing %u cached %u lost %lu\n", modules->count, modules->missing, modules->cached,
            (unsigned long)modules->lost);
    fclose(out);
    out = NULL;
    ready = false;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    check(AS_UNWIND_CALLER());
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    check(AS_UNWIND_CALLER());
    return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t size)
{
    check(AS_UNWIND_CALLER());
    return __libc_realloc(memory, size);
}
