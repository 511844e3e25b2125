# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"

class TrimTest < Minitest::Test
  include InAnotherProcess

  def test_gives_back_what_the_forecast_says
    before, forecast, returned, after, again = run_ruby(<<~RUBY).split.map(&:to_i)
      #{LEAVE_FREE}
      live = leave_free
      GC.start
      before = resident
      forecast = Arenascope.forecast.malloc_trim
      returned = Arenascope.trim
      puts before, forecast, returned, resident, Arenascope.trim, live.size
    RUBY
    assert_operator forecast, :>, 25_000_000
    assert_in_delta forecast, returned, 0.05 * forecast
    assert_in_delta returned, before - after, 0.05 * returned
    assert_operator again, :<, 2_000_000
  end

  def test_other_threads_run_meanwhile
    counted = 0
    stop = false
    counter = Thread.new { counted += 1 until stop }
    sleep 0.001 until counted.positive?
    before = counted
    20.times { Arenascope.trim }
    assert_operator counted, :>, before
  ensure
    stop = true
    counter.join
  end

  def test_a_deep_trim_also_returns_the_tops_of_thread_arenas
    plain, deep, after = run_ruby(<<~RUBY).split.map(&:to_i)
      Array.new(4) do
        thread = Thread.new { 3_000.times.map { "x" * 10_000 } && sleep }
        sleep 0.01 until thread.stop?
      end
      GC.start
      before = Arenascope.forecast
      puts Arenascope.trim, Arenascope.trim(deep: true, max_hold: 0.002), Arenascope.forecast.deep_trim
      raise "nothing was withheld" unless before.deep_trim > before.malloc_trim
    RUBY
    assert_operator plain, :>, 10_000_000
    assert_operator deep, :>, 0
    assert_operator after, :<, 2_000_000
  end

  def test_arguments
    assert_raises(ArgumentError) { Arenascope.trim(max_hold: 0) }
    assert_raises(ArgumentError) { Arenascope.trim(max_hold: -1) }
    assert_raises(ArgumentError) { Arenascope.trim(max_hold: "soon") }
  end

  def test_in_a_ractor
    skip "there are no Ractors in Ruby #{RUBY_VERSION}" unless defined?(Ractor)
    taken = Ractor.method_defined?(:value) ? "value" : "take"
    assert_equal "true", run_ruby("$VERBOSE = nil; puts Ractor.new { Arenascope.trim }.#{taken}.is_a?(Integer)").strip
  end
end
