// SPDX-License-Identifier: MIT
// Five bytes of each function are written, in one piece, and the code that they lead to before them: if we are killed between any two of
// these writes, each function either is as it was or leads to its hook, and the page says which bytes it had.
#include "inject/call_write.h"
#include "inject/entry/entry_guard.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/quiesce.h"
#include "target/process/stop/registers.h"

#include <string.h>
#include <time.h>

enum {
    ROUNDS = 50,              // in which threads that stand in the way are let run, in one stop
    ROUND_NS = 100000,        // for so long
    BETWEEN_NS = 10000000,    // two stops
    STACK_MOST = 1024 * 1024, // bytes of each stack in which the frames of signals are searched for
    PIECE_WORDS = 4096,
};

// --- Who stands in the way --------------------------------------------------------------------------------------------

// Behind the first byte that is overwritten, which is the beginning of an instruction before and afterwards.
static bool is_within(const struct as_entry_page *page, uint64_t address)
{
    AS_FOR_ITEMS(const struct as_entry, e, page->entries, AS_ENTRY_COUNT)
        if (e->function != 0 && address > e->function + e->at && address < e->function + e->at + e->length)
            return true;
    return false;
}

// A signal handler goes back to an address that is somewhere on its stack, above its own frames. Any such word counts.
static bool returns_within(struct as_process *p, const struct as_entry_page *page, uint64_t sp)
{
    uint64_t words[PIECE_WORDS];
    struct as_target *t = &p->base;
    const struct as_mapping *m = as_target_mapping_at(t, sp);
    uint64_t at = sp & ~UINT64_C(7);
    uint64_t end = !m ? at : m->end - at < STACK_MOST ? m->end : at + STACK_MOST;
    while (at < end) {
        size_t length = end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        size_t got = as_target_read_resident(t, at, words, length);
        for (size_t i = 0; i < got / sizeof *words; i++)
            if (is_within(page, words[i]))
                return true;
        if (got < length)
            break;
        at += length;
    }
    return false;
}

static bool is_in_the_way(struct as_process *p, const struct as_entry_page *page, struct as_tracee *tracee)
{
    if (!tracee->registers.known && !as_registers_read(tracee->tid, &tracee->registers))
        return false; // it has ended
    return is_within(page, tracee->registers.pc) || returns_within(p, page, tracee->registers.sp);
}

// Lets the threads that stand in the way run briefly. Returns how many there were, and one of them.
static size_t let_out(struct as_process *p, const struct as_entry_page *page, pid_t *tid)
{
    size_t count = 0;
    AS_FOR_EACH(struct as_tracee, tracee, &p->tracees) {
        if (!is_in_the_way(p, page, tracee))
            continue;
        count++;
        *tid = tracee->tid;
        if (!tracee->group_stopped)
            as_process_let_run(tracee);
    }
    if (count > 0)
        as_sleep_ns(ROUND_NS);
    return count;
}

// --- Stops ------------------------------------------------------------------------------------------------------------

// All threads stand still, and the mappings are those of now.
static bool catch (struct as_process *p, struct as_error *err)
{
    if (!as_process_catch(p, NULL, err))
        return false;
    return as_process_intact(&p->base, err) && as_process_refresh_maps(p, false, err);
}

static bool is_worth_trying(const struct as_process *p, const struct as_error *err, uint64_t deadline)
{
    if (err->code != AS_DENIED || as_now_ns() >= deadline || !as_process_alive(p))
        return false;
    as_sleep_ns(BETWEEN_NS);
    return true;
}

static bool write_there(struct as_process *p, uint64_t address, const void *bytes, size_t length, struct as_error *err)
{
    return as_call_write(p, p->tracees.items[0].tid, address, bytes, length, err);
}

// --- Out --------------------------------------------------------------------------------------------------------------

// Takes the hooks out of the stopped target. No thread can be within the jump, and one that is in the code near libc goes on as before.
static bool take_out(struct as_process *p, const struct as_entry_page *page, struct as_error *err)
{
    size_t strange = AS_ENTRY_COUNT;
    for (size_t i = 0; i < AS_ENTRY_COUNT; i++) {
        const struct as_entry *e = &page->entries[i];
        bool foreign;
        if (as_entry_is_patched(&p->base, e, &foreign) &&
            !write_there(p, e->function + e->at, e->original, AS_ENTRY_JUMP, err))
            return false;
        strange = foreign ? i : strange;
    }
    return strange == AS_ENTRY_COUNT ||
           as_fail(err, AS_UNSUPPORTED,
                   "the entry of %s in process %d has other code than the recorder's: it is left alone",
                   as_entry_name(strange), p->base.pid);
}

static bool is_any_patched(struct as_target *t, const struct as_entry_page *page)
{
    bool any = false;
    for (size_t i = 0; i < AS_ENTRY_COUNT; i++) {
        bool foreign;
        any |= as_entry_is_patched(t, &page->entries[i], &foreign) || foreign;
    }
    return any;
}

bool as_entries_take_out(struct as_process *p, uint64_t page, uint64_t patience_ns, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + patience_ns;
    struct as_entry_page there;
    if (!as_process_refresh_maps(p, false, err) || !as_entry_page_read(&p->base, page, &there, err))
        return false;
    if (!is_any_patched(&p->base, &there))
        return true;
    for (;;) {
        bool caught = catch (p, err);
        bool ok = caught && as_entry_page_read(&p->base, page, &there, err) && take_out(p, &there, err);
        as_process_resume(&p->base);
        if (ok)
            return true;
        if (!is_worth_trying(p, err, deadline))
            return false;
    }
}

// --- In ---------------------------------------------------------------------------------------------------------------

static bool write_plan(struct as_process *p, const struct as_entry_plan *plan, struct as_error *err)
{
    if (!write_there(p, plan->address + AS_ENTRY_CODE, plan->code, sizeof plan->code, err) ||
        !write_there(p, plan->address, &plan->page, sizeof plan->page, err))
        return false;
    AS_FOR_ITEMS(const struct as_entry, e, plan->page.entries, AS_ENTRY_COUNT) {
        if (e->function == 0 || write_there(p, e->function + e->at, e->jump, AS_ENTRY_JUMP, err))
            continue;
        struct as_error late;
        take_out(p, &plan->page, &late);
        return false;
    }
    return true;
}

// Stopped, and nobody in the way.
static bool try_to_write(struct as_process *p, uint64_t page, struct as_error *err)
{
    struct as_entry_plan plan;
    struct as_entry_page there;
    pid_t tid = 0;
    // What somebody has left, who was killed.
    if (!catch (p, err) || !as_entry_page_read(&p->base, page, &there, err) || !take_out(p, &there, err) ||
        !as_entry_plan_make(&plan, &p->base, page, err))
        return false;
    for (int i = 0; i < ROUNDS; i++) {
        if (let_out(p, &plan.page, &tid) == 0)
            return write_plan(p, &plan, err);
        if (!as_process_halt(p, err))
            return false;
    }
    return as_fail(err, AS_DENIED,
                   "thread %d of process %d is at the first instructions of malloc or its kin, or in a signal handler "
                   "that goes back there: its code cannot be changed now; try again",
                   (int)tid, p->base.pid);
}

bool as_entries_write(struct as_process *p, uint64_t page, uint64_t patience_ns, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + patience_ns;
    for (;;) {
        bool ok = try_to_write(p, page, err);
        as_process_resume(&p->base);
        if (ok || !is_worth_trying(p, err, deadline))
            return ok;
    }
}
