# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"
require "tmpdir"

class SnapshotTest < Minitest::Test
  include InAnotherProcess

  TABLE = File.expand_path("../../inspector/model/rows.def", __dir__)

  # The rows of some kinds, in the table's order.
  def published(*kinds)
    File.read(TABLE).scan(/^AS_ROW\((\w+), (\w+),/).select { |_, kind| kinds.include?(kind) }.map { |name,| name.to_sym }
  end

  def test_every_row_of_the_table_is_a_member
    assert_equal published("RESIDENT", "ABSENT"), Arenascope::Summary.members & published("RESIDENT", "ABSENT")
    assert_equal published("FORECAST"), Arenascope::Forecast.members
    assert_equal Arenascope::Summary.members, Arenascope::Summary.members.uniq
  end

  # In a process whose only thread is the one that inspects.
  def test_rows_add_up_to_what_is_resident
    rss, rows, *rest = run_ruby(<<~RUBY).split
      rows = %i[#{published("RESIDENT").join(" ")}]
      summary = Arenascope.summary
      puts summary.rss, rows.sum { |row| summary[row] || 0 } # what is not known apart is in `unknown`
      puts summary.in_use > 1_000_000, summary.frozen?
    RUBY
    assert_equal %w[true true], rest
    # The snapshot is the process's own work and takes memory itself, so it is not exact.
    assert_in_delta rss.to_i, rows.to_i, 2_000_000
  end

  # The process has one thread, and all numbers are Ruby's own; what is asked first makes the objects that asking needs.
  def test_pages_of_rubys_heap
    free, *found = run_ruby(<<~RUBY).split.map(&:to_i)
      kept = Array.new(100_000) { |i| "object \#{i}" }
      (0...100_000).step(3) { |i| kept[i] = nil }
      GC.start
      GC.disable
      inspected = counts = nil
      2.times do
        counts = ObjectSpace.count_objects(counts || {})
        GC.stat(:heap_allocated_pages)
        inspected = Arenascope.summary
      end
      puts counts[:FREE] - inspected.ruby_free_slots
      puts inspected.ruby_page_count, GC.stat(:heap_allocated_pages), inspected.ruby_slots, counts[:TOTAL], inspected.ruby_pages
    RUBY
    pages, allocated, slots, total, bytes = found
    assert_equal [allocated, total], [pages, slots]
    assert_operator slots, :>, 100_000 # those that live keep the pages of all that were made
    assert_includes 0..20, free # objects that were made from the count to the snapshot
    assert_includes (0.9 * pages * 16_000)..(pages * 65_536), bytes
  end

  def test_live_strings_are_in_use_and_free_ones_are_releasable
    GC.start
    Arenascope.trim
    before = Arenascope.summary
    pins = []
    strings = Array.new(2_000) { ("x" * 10_000).tap { pins << ("p" * 40) } }
    during = Arenascope.summary
    assert_in_delta 20, (during.in_use - before.in_use) / 1e6, 2
    strings.clear
    GC.start
    after = Arenascope.forecast
    assert_operator after.malloc_trim, :>, 10_000_000
    assert_operator after.deep_trim, :>=, after.malloc_trim
  end

  def test_dump
    Dir.mktmpdir do |dir|
      path = File.join(dir, "today.dump")
      assert_equal path, Arenascope.dump(path)
      assert_equal 0o600, File.stat(path).mode & 0o777
      pages = File.size(path)
      Arenascope.dump(path, chunks: true)
      assert_operator File.size(path), :>, pages
    end
  end

  def test_a_dump_that_cannot_be_written
    error = assert_raises(Arenascope::Error) { Arenascope.dump("/nonexistent/today.dump") }
    assert_equal 8, error.code
    assert_match(%r{/nonexistent/}, error.message)
    assert_raises(ArgumentError) { Arenascope.dump("a\0b") }
    assert_raises(TypeError) { Arenascope.dump(nil) }
  end

  def test_many_threads_at_once
    stop = false
    busy = Array.new(2) { Thread.new { "x" * rand(50_000) until stop } }
    Array.new(4) { Thread.new { 2.times { assert_operator Arenascope.summary.rss, :>, 0 } } }.each(&:join)
  ensure
    stop = true
    busy.each(&:join)
  end
end
