# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"
require "tmpdir"

class DumpAtTest < Minitest::Test
  include InAnotherProcess

  WAIT = <<~RUBY
    def dumps(number)
      2000.times.find { Dir["here/*.dump"].size >= number || (sleep(0.01) && false) }
      Dir["here/*.dump"].sort
    end
  RUBY

  def test_growth_and_a_limit_have_dumps
    Dir.mktmpdir do |dir|
      out = run_ruby(<<~RUBY).lines(chomp: true)
        #{WAIT}
        Dir.chdir(#{dir.inspect})
        Arenascope.dump_at("rss=64M,+16M,every=1s,keep=2", dumps: "here")
        sleep 1.5 # the first snapshot is where it begins
        puts dumps(0).size
        held = ["x" * 80_000_000]
        puts dumps(1).last
        puts held.size, File.stat("here").mode.to_s(8), File.stat(dumps(1).last).mode.to_s(8)
        Arenascope.dump_at(nil)
        before = Dir["here/*"]
        held << "x" * 80_000_000
        sleep 2.5
        puts before == Dir["here/*"]
      RUBY
      assert_match(%r{\Ahere/ruby[\w-]*\.\d+\.\d{8}T\d{6}\.\d{3}Z\.(growth\+rss|rss|growth)\.dump\z}, out[1])
      assert_equal %w[0 1 40700 100600 true], out.values_at(0, 2, 3, 4, 5)
    end
  end

  def test_conditions_that_make_no_sense
    assert_equal "2 2", run_ruby(<<~RUBY).strip
      ["often", "keep=3"].each do |words|
        Arenascope.dump_at(words) rescue (print words == "keep=3" ? " " : "", $!.code)
      end
    RUBY
  end
end
