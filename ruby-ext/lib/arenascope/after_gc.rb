# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  # Trims after full GCs: the switch, and the thread that checks whether there was one. What is decided, and how, is in
  # ext/arenascope/after_gc.c.
  module AfterGC
    WAYS = { thread: 1, gc: 2, job: 3 }.freeze
    OFF = 0

    @on = false
    @interval = nil
    @thread = nil

    class << self
      def start(min_interval, min_releasable, deep, way)
        number = WAYS.fetch(way) { raise ArgumentError, "in: must be one of #{WAYS.keys.inspect}, not #{way.inspect}" }
        nanoseconds = Integer(Float(min_interval) * 1_000_000_000)
        bytes = Integer(min_releasable)
        raise ArgumentError, "min_interval and min_releasable must not be negative" if nanoseconds.negative? || bytes.negative?

        stop
        ForkHook.install
        Native.start(number, deep, nanoseconds, bytes)
        @on = true
        return unless way == :thread

        @interval = [min_interval.to_f, 0.01].max
        start_thread
      end

      def on?
        @on
      end

      def stop
        @on = false
        @interval = nil
        @thread&.kill&.join # a trim that is under way ends first
        @thread = nil
        Native.start(OFF, false, 0, 0)
      end

      # In a child of fork() only the thread that forked lives.
      def after_fork
        start_thread if @interval && !@thread&.alive?
      end

      private

      def start_thread
        @thread = Thread.new(@interval) do |interval|
          loop do
            sleep(interval)
            Native.poll
          end
        end
        @thread.name = "arenascope"
        @thread.thread_variable_set(:fork_safe, true) # else Puma warns of it
      end
    end

    # Tells AfterGC of forks: Process._fork is what all of them go through from Ruby 3.1 on (but Process.daemon).
    module ForkHook
      @installed = false

      module Fork31
        def _fork
          super.tap { |pid| AfterGC.after_fork if pid.zero? }
        end
      end

      module Fork
        def fork
          if block_given?
            super do
              AfterGC.after_fork
              yield
            end
          else
            super.tap { |pid| AfterGC.after_fork unless pid }
          end
        end
      end

      module Daemon
        def daemon(*)
          super.tap { AfterGC.after_fork }
        end
      end

      def self.install
        return if @installed

        @installed = true
        Process.singleton_class.prepend(Daemon)
        if Process.respond_to?(:_fork)
          Process.singleton_class.prepend(Fork31)
        else
          [Process.singleton_class, Kernel.singleton_class].each { |target| target.prepend(Fork) }
          # What `fork` alone calls, which is private. Before Ruby 3.0 a Kernel prepended to later does not reach Object.
          own = Fork.dup
          own.send(:private, :fork)
          [Kernel, Object].each { |target| target.prepend(own) }
        end
      end
    end
    private_constant :ForkHook
  end
  private_constant :AfterGC

  class << self
    # From now on, trims after the sweep of each full GC, if there is something to gain. Returns false if trims are impossible.
    #
    # min_interval::   minimum time in seconds from the end of one trim to the next. The time is longer if the budget does not
    #                  cover a trim: trims have a tenth of the processor time that the process uses, plus a hundredth of the
    #                  wall-clock time, and are charged for memory that is soon needed again.
    # min_releasable:: minimum of bytes that are free and resident, by an estimate that reads malloc's lists of free chunks; 0:
    #                  no estimate is made.
    # deep::           also return memory that malloc_trim never returns, such as the tops of thread arenas; if that is
    #                  impossible, a plain trim is made.
    # in::             :thread (the default): a thread checks for full GCs, and trims without the GVL: no request waits for it.
    #                  :gc: at the end of the sweep itself, while all Ruby threads wait. :job: soon after the sweep, without the
    #                  GVL, in the thread that first reaches a safe point. Up to Ruby 3.2 the last two slow down all allocations.
    def trim_after_gc!(min_interval: 0.25, min_releasable: 16 * 1024 * 1024, deep: false, in: :thread)
      way = binding.local_variable_get(:in) # a keyword as a name
      return false unless supported?

      AfterGC.start(min_interval, min_releasable, deep, way)
      true
    end

    # Whether trim_after_gc! is in effect.
    def trimming?
      AfterGC.on?
    end

    # Marks the block as a request or a job. Trims with in: :thread wait until no such block runs, for 8 intervals at most.
    def at_work
      Native.work(+1)
      yield
    ensure
      Native.work(-1)
    end

    # Briefly in which nobody waits: does at once what the thread of in: :thread would do at its next check. Returns whether
    # it trimmed.
    def trim_if_due
      Native.poll
    end

    # Stops the trims after GCs.
    def stop_trimming!
      AfterGC.stop if supported?
      nil
    end

    def trim_stats
      count, bytes, time, longest, declined = Native.trim_stats
      TrimStats.new(count: count, bytes: bytes, time: time / 1e9, longest: longest / 1e9, declined: declined)
    end
  end
end
