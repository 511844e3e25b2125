# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"

class AfterGCTest < Minitest::Test
  include InAnotherProcess
  parallelize_me!

  WAYS = %i[thread gc job].freeze

  # Waits until a trim was made, for the thread does it when it does.
  TRIMMED = <<~RUBY
    def trimmed?(count = 1)
      200.times { Arenascope.trim_stats.count >= count ? (return true) : sleep(0.01) }
      false
    end
  RUBY

  # Whether at_work has held trims back, from `began` on, for as long as the manual says: 8 intervals.
  HELD_BACK = <<~RUBY
    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def held_back?(count, interval, began)
      count.zero? || now - began >= 8 * interval
    end
  RUBY

  WAYS.each do |way|
    define_method("test_a_full_gc_is_followed_by_a_trim_#{way}") do
      assert_equal "true true true", run_ruby(<<~RUBY).strip
        #{LEAVE_FREE}
        #{TRIMMED}
        Arenascope.trim_after_gc!(min_interval: 0.05, in: #{way.inspect})
        live = leave_free
        before = resident
        GC.start
        trimmed = trimmed?
        stats = Arenascope.trim_stats
        fine = stats.time >= stats.longest && stats.longest.positive? && stats.bytes > 25_000_000
        puts [trimmed, fine, live && before - resident > 25_000_000].join(" ")
      RUBY
    end

    # Marked in steps and swept as slots are needed, which is how Ruby runs the GCs that it starts itself.
    define_method("test_a_gc_in_steps_is_followed_by_a_trim_#{way}") do
      assert_equal "true", run_ruby(<<~RUBY).strip
        #{LEAVE_FREE}
        Arenascope.trim_after_gc!(min_interval: 0.01, in: #{way.inspect})
        live = leave_free
        deadline = Time.now + 20
        kept = Array.new(2_000)
        until Arenascope.trim_stats.bytes > 15_000_000 || Time.now > deadline
          GC.start(immediate_mark: false, immediate_sweep: false)
          20_000.times { |i| kept[i % kept.size] = "y" * 400 }
        end
        puts live && Arenascope.trim_stats.bytes > 15_000_000
      RUBY
    end

    define_method("test_a_minor_gc_is_not_#{way}") do
      assert_equal "0", run_ruby(<<~RUBY).strip
        GC.start
        Arenascope.trim_after_gc!(min_interval: 0, min_releasable: 0, in: #{way.inspect})
        majors = GC.stat(:major_gc_count)
        5.times { GC.start(full_mark: false) }
        sleep 0.1
        puts [Arenascope.trim_stats.count - (GC.stat(:major_gc_count) - majors), 0].max
      RUBY
    end

    define_method("test_not_more_often_than_asked_#{way}") do
      assert_equal "true", run_ruby(<<~RUBY).strip
        #{TRIMMED}
        Arenascope.trim_after_gc!(min_interval: 0.1, min_releasable: 0, in: #{way.inspect})
        started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        60.times { GC.start; sleep 0.01 }
        periods = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) / 0.1
        puts Arenascope.trim_stats.count.between?(1, periods + 1)
      RUBY
    end

    define_method("test_not_for_little_#{way}") do
      assert_equal "0 true", run_ruby(<<~RUBY).strip
        Arenascope.trim_after_gc!(min_interval: 0.01, min_releasable: 1 << 40, in: #{way.inspect})
        strings = Array.new(1_000) { "x" * 10_000 }
        strings = nil
        GC.start
        sleep 0.2
        puts [Arenascope.trim_stats.count, Arenascope.trim_stats.declined.positive?].join(" ")
      RUBY
    end

    define_method("test_goes_on_in_a_forked_child_#{way}") do
      assert_equal "true true true", run_ruby(<<~RUBY).strip
        #{LEAVE_FREE}
        #{TRIMMED}
        Arenascope.trim_after_gc!(min_interval: 0.02, in: #{way.inspect})
        child = lambda do
          live = leave_free
          GC.start
          exit!(trimmed? && live ? 0 : 1)
        end
        forked = [fork { child.call }, Process.fork { child.call }, fork || child.call]
        puts forked.map { |pid| Process.wait(pid) && $?.success? }.join(" ")
      RUBY
    end

    define_method("test_with_compaction_fibers_threads_and_ends_#{way}") do
      assert_equal "done", run_ruby(<<~RUBY).strip
        #{TRIMMED}
        Arenascope.trim_after_gc!(min_interval: 0, min_releasable: 0, in: #{way.inspect})
        threads = Array.new(4) { Thread.new { 300.times { "x" * rand(100_000) } } }
        fibers = Array.new(20) { Fiber.new { 10.times { Array.new(100) { "y" * 500 }; Fiber.yield } } }
        10.times { fibers.each(&:resume); GC.start }
        GC.compact if GC.respond_to?(:compact)
        threads.each(&:join)
        GC.start # the sweep after a compaction waits for allocations
        raise "no trim" unless trimmed?
        Arenascope.stop_trimming!
        count = Arenascope.trim_stats.count
        GC.start
        sleep 0.05
        raise "a trim after the end" unless Arenascope.trim_stats.count == count
        puts :done
      RUBY
    end
  end

  # Everything that a trim gives back is wanted again at once: 10 MB, whose every 4 KiB count as 2.5 microseconds.
  # Where others leave us little of the processors, the hundredth of the clock's time counts too.
  %i[thread gc].each do |way|
    define_method("test_costs_a_tenth_#{way}") do
      count, cpu, clock = run_ruby(<<~RUBY).split.map(&:to_f)
        Arenascope.trim_after_gc!(min_interval: 0.01, min_releasable: 0, in: #{way.inspect})
        clocks = [Process::CLOCK_PROCESS_CPUTIME_ID, Process::CLOCK_MONOTONIC]
        now = -> { clocks.map { |clock| Process.clock_gettime(clock) } }
        started = now.call
        until now.call.first > started.first + 2
          strings = Array.new(2_000) { |i| "x" * (i.even? ? 10_000 : 40) }
          live = strings.each_slice(2).map(&:last)
          strings = nil
          GC.start
          Thread.pass
        end
        puts Arenascope.trim_stats.count, *now.call.zip(started).map { |ended, began| ended - began }
      RUBY
      assert_operator count, :>=, 3
      assert_operator count * 10_000_000 / 4096 * 2.5e-6, :<, 1.5 * ((cpu / 10) + (clock / 100))
    end
  end

  # What threads leave free at the tops of their arenas malloc_trim leaves there.
  def test_deep
    plain, deep = [false, true].map do |asked|
      run_ruby(<<~RUBY).to_i
        #{TRIMMED}
        threads = Array.new(4) do
          Thread.new do
            Thread.current[:kept] = "k" * 40
            Array.new(1_500) { "x" * 10_000 }.clear
            Thread.stop
          end
        end
        sleep 0.01 until threads.all?(&:stop?)
        # Some of it free() gives back by itself, so that it is for little at times; and one GC is one trim.
        Arenascope.trim_after_gc!(min_interval: 0.05, min_releasable: 0, deep: #{asked})
        GC.start
        raise "no trim" unless trimmed?
        Arenascope.stop_trimming!
        puts Arenascope.forecast.deep_trim
      RUBY
    end
    assert_operator deep, :<, 2_000_000
    assert_operator deep, :<, plain
  end

  # What cannot be measured is not said to be nothing.
  def test_without_a_file_descriptor
    assert_equal "8 nil 0 true", run_ruby(<<~RUBY).strip
      #{LEAVE_FREE}
      #{TRIMMED}
      limit = Process.getrlimit(:NOFILE)
      few = -> { Process.setrlimit(:NOFILE, 3, limit[1]) }
      few.call
      code = begin
        Arenascope.trim_after_gc!
      rescue Arenascope::Error => e
        e.code
      end
      Process.setrlimit(:NOFILE, *limit)
      Arenascope.trim_after_gc!(min_interval: 0.05)
      few.call
      live = leave_free
      GC.start
      sleep 0.3
      stats = Arenascope.trim_stats
      Process.setrlimit(:NOFILE, *limit)
      print code, " ", stats.bytes.zero? ? "nil" : stats.bytes, " ", stats.count + stats.declined, " "
      puts trimmed? && live && Arenascope.trim_stats.bytes > 25_000_000
    RUBY
  end

  def test_waits_while_something_is_at_work_but_not_for_ever
    assert_equal "true true false", run_ruby(<<~RUBY).strip
      #{LEAVE_FREE}
      #{TRIMMED}
      #{HELD_BACK}
      Arenascope.trim_after_gc!(min_interval: 0.1)
      began = now
      counts = Arenascope.at_work do
        live = leave_free
        GC.start
        sleep 0.4
        [held_back?(Arenascope.trim_stats.count, 0.1, began), trimmed? && !live.empty?]
      end
      puts [*counts, Arenascope.trim_if_due].join(" ")
    RUBY
  end

  # A trim that has been due for long, because it was too dear while GCs went on, waits for a request that begins only now.
  def test_waits_for_what_is_at_work_however_long_it_has_been_due
    assert_equal "true true true", run_ruby(<<~RUBY).strip
      #{LEAVE_FREE}
      #{TRIMMED}
      #{HELD_BACK}
      Arenascope.trim_after_gc!(min_interval: 0.1)
      live = Array.new(6) { leave_free }
      40.times { sleep 0.025; GC.start }
      began = now
      within = Arenascope.at_work do
        before = Arenascope.trim_stats.count
        sleep 0.4
        held_back?(Arenascope.trim_stats.count - before, 0.1, began)
      end
      puts [live && true, within, trimmed?].join(" ")
    RUBY
  end

  def test_autotrim_starts_by_being_required
    assert_equal "1", run_ruby("require 'arenascope/autotrim'; puts Thread.list.count { |t| t.name == 'arenascope' }").strip
  end

  def test_arguments
    assert_raises(ArgumentError) { Arenascope.trim_after_gc!(in: :dreams) }
    assert_raises(ArgumentError) { Arenascope.trim_after_gc!(min_interval: -1) }
    assert_raises(ArgumentError) { Arenascope.trim_after_gc!(min_releasable: -1) }
    assert_equal 0, Arenascope.trim_stats.count
    refute_predicate Arenascope, :trimming?
  end
end
