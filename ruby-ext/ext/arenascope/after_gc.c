// SPDX-License-Identifier: MIT
// Trims after full GCs: when, and what they did.
//
// A trim is due once a major GC has SWEPT. When its marking ends nothing has been freed yet, so a trim there returns only what
// earlier ones left. It is put off while the last one was less than an interval ago. That interval doubles, up to a limit,
// whenever most of what a trim gave back was taken again by the time of the next: then it cost page faults and gained nothing.
// And it is not made where little would come back: see unaccounted().
//
// Three ways to notice, of which one is chosen at a time:
// - polled: a Ruby thread calls poll() from time to time (lib/arenascope/after_gc.rb). No GC hook at all: up to Ruby 3.2 any
//   hook for GC events sends every allocation of the program down its slow path.
// - in the GC: a hook for the end of the sweep trims there and then.
// - by job: the hook asks for a postponed job, which Ruby runs in some thread as soon as that is safe; that trims.
//
// In a hook no Ruby object is made, and no rb_tracearg_ function is called, for these may raise during another thread's lazy
// sweep. All state is guarded by the GVL, also that of the trims, which are made without it: one at a time, `trimming_pid`.
#include "native.h"

#include <malloc.h>
#include <ruby/debug.h>
#include <ruby/thread.h>
#include <unistd.h>

enum way { OFF, POLLED, IN_GC, BY_JOB };

// The interval doubles at most so often, to 16 times what was asked for.
enum { MOST_DOUBLINGS = 4 };

static struct {
    enum way way;
    uint64_t min_interval_ns;
    uint64_t min_releasable;

    bool due;             // a major GC has been swept since the last trim
    uint64_t majors_seen; // by poll()
    unsigned doublings;
    int64_t base;        // unaccounted() after the last trim
    uint64_t last_after; // as_anonymous_bytes() after it
    uint64_t last_gain;
    uint64_t last_end_ns; // 0: none yet
    pid_t
        trimming_pid; // whose trim is under way; 0: none. A child of fork() finds its parent's here, and may ignore it.

    uint64_t count, bytes, elapsed_ns, longest_ns;
    uint64_t declined; // too little would have come back
} state;

static VALUE end_of_sweep; // the TracePoint, once there is one
static VALUE key_major_gc_count, key_state, key_major_by, value_none;
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
static rb_postponed_job_handle_t job_handle;
#endif

// Resident anonymous memory that malloc does not hold for the program: what is free, the process's other memory, and malloc's
// own. Only its growth since the last trim means something: that much can be free and resident now. Ruby's own pages count as
// well where they are not malloc's (from 3.1 on), so it may be less, and a trim is made for little; it is never more.
static int64_t unaccounted(uint64_t anonymous)
{
#ifdef HAVE_MALLINFO2
    struct mallinfo2 info = mallinfo2();
    uint64_t held = info.uordblks + info.hblkhd;
#else
    // Sums of int: right to 4 GiB, and beyond that their differences are, as long as they are smaller than that.
    struct mallinfo info = mallinfo();
    uint64_t held = (uint32_t)((unsigned)info.uordblks + (unsigned)info.hblkhd);
#endif
    return (int64_t)(anonymous - held);
}

static bool too_soon(uint64_t now_ns)
{
    return state.last_end_ns && now_ns - state.last_end_ns < state.min_interval_ns << state.doublings;
}

// Before a trim: was the last one for nothing?
static void judge_last(uint64_t anonymous)
{
    if (!state.last_gain)
        return;
    uint64_t taken_again = anonymous > state.last_after ? anonymous - state.last_after : 0;
    if (taken_again >= state.last_gain / 4 * 3)
        state.doublings += state.doublings < MOST_DOUBLINGS;
    else
        state.doublings -= state.doublings > 0;
    state.last_gain = 0;
}

// Whether to trim now; if not, because there is too little to gain, it is no longer due.
static bool worth_it(uint64_t now_ns)
{
    if (!state.due || state.trimming_pid == getpid() || too_soon(now_ns))
        return false;
    uint64_t anonymous = as_anonymous_bytes();
    judge_last(anonymous);
    if (too_soon(now_ns))
        return false;
    if (state.min_releasable && unaccounted(anonymous) - state.base < (int64_t)state.min_releasable) {
        state.due = false;
        state.declined++;
        return false;
    }
    state.trimming_pid = getpid();
    return true;
}

static void account(const struct as_plain_trim *trim)
{
    uint64_t elapsed = trim->ended_ns - trim->started_ns;
    state.due = false;
    state.trimming_pid = 0;
    state.last_after = trim->after;
    state.last_gain = trim->before > trim->after ? trim->before - trim->after : 0;
    state.last_end_ns = trim->ended_ns;
    state.base = unaccounted(trim->after);
    state.count++;
    state.bytes += state.last_gain;
    state.elapsed_ns += elapsed;
    if (elapsed > state.longest_ns)
        state.longest_ns = elapsed;
}

static void *without_gvl(void *trim)
{
    as_plain_trim(trim);
    return trim;
}

static bool trim_if_worth_it(void)
{
    if (!worth_it(as_monotonic_ns()))
        return false;
    struct as_plain_trim trim;
    // This one raises nothing afterwards, for the state must be put right first; and does nothing when it ought to raise.
    if (!rb_thread_call_without_gvl2(without_gvl, &trim, NULL, NULL)) {
        state.trimming_pid = 0;
        return false;
    }
    account(&trim);
    return true;
}

static void job(void *unused)
{
    trim_if_worth_it();
}

// Runs inside the GC.
static void on_end_of_sweep(VALUE tracepoint, void *unused)
{
    if (NIL_P(rb_gc_latest_gc_info(key_major_by)))
        return;
    state.due = true;
    if (state.way == IN_GC && worth_it(as_monotonic_ns())) {
        struct as_plain_trim trim;
        as_plain_trim(&trim);
        account(&trim);
    } else if (state.way == BY_JOB && !too_soon(as_monotonic_ns())) {
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
        rb_postponed_job_trigger(job_handle);
#else
        rb_postponed_job_register_one(0, job, NULL);
#endif
    }
}

// Native.poll → whether it trimmed. Called by the thread of the polled way.
static VALUE poll(VALUE self)
{
    uint64_t majors = rb_gc_stat(key_major_gc_count);
    if (majors != state.majors_seen && rb_gc_latest_gc_info(key_state) == value_none) { // else it is still sweeping
        state.majors_seen = majors;
        state.due = true;
    }
    return state.way == POLLED && trim_if_worth_it() ? Qtrue : Qfalse;
}

// Native.start(way, min_interval in nanoseconds, min_releasable in bytes); way as in enum way.
static VALUE start(VALUE self, VALUE way, VALUE min_interval, VALUE min_releasable)
{
    state.way = NUM2INT(way);
    state.min_interval_ns = NUM2ULL(min_interval);
    state.min_releasable = NUM2ULL(min_releasable);
    state.majors_seen = rb_gc_stat(key_major_gc_count);
    state.due = false;
    state.doublings = 0;
    state.last_gain = 0;
    state.base = unaccounted(as_anonymous_bytes());

    bool hooked = state.way == IN_GC || state.way == BY_JOB;
    if (hooked && NIL_P(end_of_sweep))
        end_of_sweep = rb_tracepoint_new(Qnil, RUBY_INTERNAL_EVENT_GC_END_SWEEP, on_end_of_sweep, NULL);
    if (!NIL_P(end_of_sweep) && hooked != RTEST(rb_tracepoint_enabled_p(end_of_sweep)))
        hooked ? rb_tracepoint_enable(end_of_sweep) : rb_tracepoint_disable(end_of_sweep);
    return Qnil;
}

// Native.trim_stats → [count, bytes, nanoseconds, longest in nanoseconds, declined]
static VALUE trim_stats(VALUE self)
{
    return rb_ary_new_from_args(5, ULL2NUM(state.count), ULL2NUM(state.bytes), ULL2NUM(state.elapsed_ns),
                                ULL2NUM(state.longest_ns), ULL2NUM(state.declined));
}

static VALUE symbol(const char *name)
{
    return ID2SYM(rb_intern(name)); // of an interned literal: never collected
}

void as_init_after_gc(void)
{
    key_major_gc_count = symbol("major_gc_count");
    key_state = symbol("state");
    key_major_by = symbol("major_by");
    value_none = symbol("none");
    rb_gc_latest_gc_info(key_major_by); // the first call makes the symbols that it knows: not in a hook
    end_of_sweep = Qnil;
    rb_gc_register_address(&end_of_sweep);
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
    job_handle = rb_postponed_job_preregister(0, job, NULL);
#endif
    rb_define_module_function(as_native, "poll", poll, 0);
    rb_define_module_function(as_native, "start", start, 3);
    rb_define_module_function(as_native, "trim_stats", trim_stats, 0);
}
