// SPDX-License-Identifier: MIT
// Trims after full GCs: when, and what they did.
//
// A trim is due once a major GC has SWEPT. When its marking ends nothing has been freed yet, so a trim there returns only what
// earlier ones left. It is put off while the last one was less than an interval ago; it is not made where little would come
// back (see unaccounted()); and it must be affordable.
//
// For what costs is not the trim but what follows: memory that is wanted again is faulted back page by page. Trims have a
// tenth of the processor time that the process uses. Each is charged for the time that it took, and, once that is seen, for what
// the process has taken again. While GCs go on it is about to do so, and must be able to pay for all of it beforehand.
//
// Three ways to notice, of which one is chosen at a time:
// - polled: a Ruby thread calls poll() from time to time (lib/arenascope/after_gc.rb). No GC hook at all: up to Ruby 3.2 any
//   hook for GC events sends every allocation of the program down its slow path.
// - in the GC: a hook for the end of the sweep trims there and then.
// - by job: the hook asks for a postponed job, which Ruby runs in some thread as soon as that is safe; that trims.
//
// In a hook no Ruby object is made, and no rb_tracearg_ function is called, for these may raise during another thread's lazy
// sweep.
#include "native.h"

#include <malloc.h>
#include <ruby/debug.h>
#include <ruby/thread.h>
#include <ruby/version.h>
#include <time.h>
#include <unistd.h>

#define HAS_JOB_HANDLES (RUBY_API_VERSION_CODE >= 30300)

// Since glibc 2.33, and weak: what is built against an older one uses it, too, where it is, and what is built against a newer one
// needs it nowhere.
#if !__GLIBC_PREREQ(2, 33)
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif
#pragma weak mallinfo2

enum way { OFF, POLLED, IN_GC, BY_JOB };

// Trims may cost so much of the time: one part in 10 of what the process uses of processors and, so that one that hardly uses any
// may trim at last, one part in 100 of the clock's. They save up no more than that.
enum { SHARE = 10, SHARE_OF_CLOCK = 100 };
static const int64_t MOST_SAVED_NS = 1000000000;
// To fault 4 KiB back in: measured, 1.6 to 2.5 microseconds on a virtual machine (docs/ruby.md has the former).
enum { PAGE_NS = 2500, PAGE = 4096 };
// So many intervals a polled trim waits, at most, briefly in which no request and no job is at work.
enum { PATIENCE = 8 };

static struct {
    enum way way;
    bool deep;
    uint64_t min_interval_ns;
    uint64_t min_releasable;

    // Who has the fields below, during a trim as well; 0: nobody. Nobody waits for it: a GC hook must not, and who comes second
    // has no reason to trim. A child of fork() may find its parent's, and ignores it.
    pid_t owner;
    int64_t saved_ns;     // that trims may cost; below 0: that they have cost too much
    uint64_t cpu_ns;      // of the process, when that was last added to
    uint64_t balanced_ns; // when it was
    int64_t base;         // unaccounted() after the last trim
    uint64_t last_after;  // as_anonymous_bytes() after it
    uint64_t last_gain;   // of which nothing has been seen to be taken again yet
    uint64_t last_end_ns; // 0: none yet
    uint64_t count, bytes, elapsed_ns, longest_ns;
    bool bytes_unknown; // of some trim
    uint64_t declined;  // too little would have come back

    // Not under it.
    uint64_t due_ns;      // since when: a major GC has been swept since the last trim; 0: none has
    uint64_t majors_seen; // by poll()
    uint64_t gcs_then;    // GCs there had been when it first saw a major that was not yet swept; 0: none is awaited
    uint64_t held_ns;     // since when what is due waits for requests and jobs to end; 0: it does not
    unsigned working;     // requests and jobs at work
    bool busy;            // there was a GC between the last two snapshots of poll()
    uint64_t inspected_ns, inspected_gcs;
} state;

static VALUE end_of_sweep; // the TracePoint, once there is one
static VALUE key_count, key_major_gc_count, key_state, key_major_by, value_none;
#if HAS_JOB_HANDLES
static rb_postponed_job_handle_t job_handle;
#endif

// What malloc holds for the program.
static uint64_t held(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// Sums of int: right to 4 GiB. A process that grows or shrinks beyond that may be trimmed in vain, or not be until it is
// smaller, or larger, again.
static uint64_t held_of_ints(void)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo info = mallinfo();
#pragma GCC diagnostic pop
    return (uint32_t)((unsigned)info.uordblks + (unsigned)info.hblkhd);
}

// Resident anonymous memory that malloc does not hold for the program: what is free, the process's other memory, and malloc's
// own. Only its growth since the last trim means something: that much can be free and resident now. Ruby's own pages count as
// well where they are not malloc's (from 3.1 on), so it may be less, and a trim is made for little; it is never more.
static int64_t unaccounted(uint64_t anonymous)
{
    return (int64_t)(anonymous - (mallinfo2 ? held() : held_of_ints()));
}

static bool too_soon(uint64_t now_ns)
{
    return state.last_end_ns && now_ns - state.last_end_ns < state.min_interval_ns;
}

static uint64_t cpu_ns(void)
{
    return as_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

// What it costs to take so much again.
static int64_t price(int64_t bytes)
{
    return bytes > 0 ? bytes / PAGE * PAGE_NS : 0;
}

static void balance(uint64_t anonymous, uint64_t now_ns)
{
    uint64_t used = cpu_ns(); // which begins anew in a child of fork()
    state.saved_ns += used > state.cpu_ns ? (int64_t)((used - state.cpu_ns) / SHARE) : 0;
    state.saved_ns += (int64_t)((now_ns - state.balanced_ns) / SHARE_OF_CLOCK);
    state.cpu_ns = used;
    state.balanced_ns = now_ns;
    if (state.saved_ns > MOST_SAVED_NS)
        state.saved_ns = MOST_SAVED_NS;

    uint64_t taken = anonymous > state.last_after ? anonymous - state.last_after : 0;
    taken = taken < state.last_gain ? taken : state.last_gain;
    state.saved_ns -= price((int64_t)taken);
    state.last_after += taken;
    state.last_gain -= taken;
}

static bool claim(void)
{
    pid_t self = getpid(), owner = __atomic_load_n(&state.owner, __ATOMIC_RELAXED);
    return owner != self &&
           __atomic_compare_exchange_n(&state.owner, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void release(void)
{
    __atomic_store_n(&state.owner, 0, __ATOMIC_RELEASE);
}

// Whether to trim now; if not, because there is too little to gain, it is no longer due.
static bool worth_it(uint64_t now_ns)
{
    if (too_soon(now_ns))
        return false;
    uint64_t anonymous = as_anonymous_bytes();
    if (anonymous == ARENASCOPE_UNKNOWN)
        return false;
    balance(anonymous, now_ns);
    int64_t most = unaccounted(anonymous) - state.base; // that would come back
    if (most < (int64_t)state.min_releasable && state.min_releasable) {
        state.due_ns = 0;
        state.declined++;
        return false;
    }
    return state.saved_ns >= (state.busy ? price(most) : 0);
}

static void account(const struct as_measured_trim *trim)
{
    uint64_t elapsed = trim->ended_ns - trim->started_ns;
    bool known = trim->before != ARENASCOPE_UNKNOWN && trim->after != ARENASCOPE_UNKNOWN;
    // What a busy process takes again it may free without another major GC.
    state.due_ns = state.busy ? trim->ended_ns : 0;
    state.saved_ns -= (int64_t)trim->cpu_ns;
    state.last_gain = known && trim->before > trim->after ? trim->before - trim->after : 0;
    if (known) {
        state.last_after = trim->after;
        state.base = unaccounted(trim->after);
    }
    state.last_end_ns = trim->ended_ns;
    state.count++;
    state.bytes += state.last_gain;
    state.bytes_unknown |= !known;
    state.elapsed_ns += elapsed;
    if (elapsed > state.longest_ns)
        state.longest_ns = elapsed;
}

static void *measured_trim(void *trim)
{
    as_measured_trim(trim);
    return trim;
}

// This one raises nothing afterwards, for the state must be put right first; and does nothing when it ought to raise.
static bool without_gvl(struct as_measured_trim *trim)
{
    return rb_thread_call_without_gvl2(measured_trim, trim, NULL, NULL) != NULL;
}

static bool within_gc(struct as_measured_trim *trim)
{
    return measured_trim(trim) != NULL;
}

static bool trim_if_worth_it(bool run(struct as_measured_trim *))
{
    if (!state.due_ns || !claim())
        return false;
    struct as_measured_trim trim = {.deep = state.deep};
    bool done = worth_it(as_clock_ns(CLOCK_MONOTONIC)) && run(&trim);
    if (done)
        account(&trim);
    release();
    return done;
}

static void job(void *unused)
{
    trim_if_worth_it(without_gvl);
}

// Runs inside the GC.
static void on_end_of_sweep(VALUE tracepoint, void *unused)
{
    if (NIL_P(rb_gc_latest_gc_info(key_major_by)))
        return;
    state.due_ns = as_clock_ns(CLOCK_MONOTONIC);
    if (state.way == IN_GC)
        trim_if_worth_it(within_gc);
    else if (state.way == BY_JOB && !too_soon(state.due_ns)) {
#if HAS_JOB_HANDLES
        rb_postponed_job_trigger(job_handle);
#else
        rb_postponed_job_register_one(0, job, NULL);
#endif
    }
}

// Native.poll → whether it trimmed. Called by the thread of the polled way, and where nothing is at work.
static VALUE poll(VALUE self)
{
    if (state.way != POLLED)
        return Qfalse;
    uint64_t majors = rb_gc_stat(key_major_gc_count), gcs = rb_gc_stat(key_count), now = as_clock_ns(CLOCK_MONOTONIC);
    if (now - state.inspected_ns >= state.min_interval_ns / 2) { // else too little time to judge by
        state.busy = gcs != state.inspected_gcs;
        state.inspected_ns = now;
        state.inspected_gcs = gcs;
    }
    if (majors != state.majors_seen && !state.gcs_then)
        state.gcs_then = gcs;
    // Swept: no GC is under way, or another has begun since.
    if (state.gcs_then && (gcs != state.gcs_then || rb_gc_latest_gc_info(key_state) == value_none)) {
        state.majors_seen = majors;
        state.gcs_then = 0;
        state.due_ns = state.due_ns ? state.due_ns : now;
    }
    if (!__atomic_load_n(&state.working, __ATOMIC_RELAXED))
        state.held_ns = 0;
    else if (state.due_ns) {
        state.held_ns = state.held_ns ? state.held_ns : now;
        if (now - state.held_ns < PATIENCE * state.min_interval_ns)
            return Qfalse;
    }
    bool trimmed = trim_if_worth_it(without_gvl);
    if (trimmed || !state.due_ns)
        state.held_ns = 0;
    return trimmed ? Qtrue : Qfalse;
}

// Native.work(change): one request or job more is at work, or one less.
static VALUE work(VALUE self, VALUE change)
{
    __atomic_add_fetch(&state.working, NUM2INT(change), __ATOMIC_RELAXED);
    return Qnil;
}

// Native.start(way, deep, min_interval in nanoseconds, min_releasable in bytes); way as in enum way.
static VALUE start(VALUE self, VALUE way, VALUE deep, VALUE min_interval, VALUE min_releasable)
{
    uint64_t anonymous = as_anonymous_bytes();
    if (anonymous == ARENASCOPE_UNKNOWN && NUM2INT(way) != OFF)
        as_raise(ARENASCOPE_IO,
                 "resident memory cannot be read from /proc/self/statm: mount /proc, or allow more open files");
    state.way = NUM2INT(way);
    state.deep = RTEST(deep);
    state.min_interval_ns = NUM2ULL(min_interval);
    state.min_releasable = NUM2ULL(min_releasable);
    state.majors_seen = rb_gc_stat(key_major_gc_count);
    state.gcs_then = 0;
    state.held_ns = 0;
    state.due_ns = 0;
    state.busy = false;
    state.saved_ns = 0;
    state.cpu_ns = cpu_ns();
    state.balanced_ns = state.inspected_ns = as_clock_ns(CLOCK_MONOTONIC);
    state.inspected_gcs = rb_gc_stat(key_count);
    state.last_gain = 0;
    state.base = unaccounted(anonymous);

    bool hooked = state.way == IN_GC || state.way == BY_JOB;
    if (hooked && NIL_P(end_of_sweep))
        end_of_sweep = rb_tracepoint_new(Qnil, RUBY_INTERNAL_EVENT_GC_END_SWEEP, on_end_of_sweep, NULL);
    if (!NIL_P(end_of_sweep) && hooked != RTEST(rb_tracepoint_enabled_p(end_of_sweep)))
        hooked ? rb_tracepoint_enable(end_of_sweep) : rb_tracepoint_disable(end_of_sweep);
    return Qnil;
}

// Native.trim_stats → [count, bytes or nil, nanoseconds, longest in nanoseconds, declined]
static VALUE trim_stats(VALUE self)
{
    return rb_ary_new_from_args(5, ULL2NUM(state.count), state.bytes_unknown ? Qnil : ULL2NUM(state.bytes),
                                ULL2NUM(state.elapsed_ns), ULL2NUM(state.longest_ns), ULL2NUM(state.declined));
}

static VALUE symbol(const char *name)
{
    return ID2SYM(rb_intern(name)); // of an interned literal: never collected
}

void as_init_after_gc(void)
{
    key_count = symbol("count");
    key_major_gc_count = symbol("major_gc_count");
    key_state = symbol("state");
    key_major_by = symbol("major_by");
    value_none = symbol("none");
    rb_gc_latest_gc_info(key_major_by); // the first call makes the symbols that it knows: not in a hook
    end_of_sweep = Qnil;
    rb_gc_register_address(&end_of_sweep);
#if HAS_JOB_HANDLES
    job_handle = rb_postponed_job_preregister(0, job, NULL);
#endif
    rb_define_module_function(as_native, "poll", poll, 0);
    rb_define_module_function(as_native, "start", start, 4);
    rb_define_module_function(as_native, "work", work, 1);
    rb_define_module_function(as_native, "trim_stats", trim_stats, 0);
}
