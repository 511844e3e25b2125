# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"
require "tmpdir"

class UnsupportedTest < Minitest::Test
  include InAnotherProcess

  NOTHING_HAPPENS = <<~RUBY
    raise if Arenascope.supported?
    raise unless Arenascope.trim.zero?
    raise if Arenascope.trim_after_gc!
    raise unless Arenascope.stop_trimming!.nil?
    raise unless Arenascope.trim_stats.to_a.sum.zero?
    [-> { Arenascope.dump_on_signal("USR2") }, -> { Arenascope.summary }, -> { Arenascope.forecast }, -> { Arenascope.dump("x") }].each do |snapshot|
      snapshot.call
      raise "it inspected"
    rescue Arenascope::UnsupportedError => e
      raise unless e.message.include?("glibc")
    end
    puts :fine
  RUBY

  def test_where_it_was_not_built
    Dir.mktmpdir do |dir|
      FileUtils.cp_r(File.join(LIBS.find { |lib| File.exist?("#{lib}/arenascope.rb") }, "."), dir)
      FileUtils.rm_f(File.join(dir, "arenascope/arenascope.so"))
      code = "require 'arenascope/autotrim'\n#{NOTHING_HAPPENS}"
      assert_equal "fine", run_ruby(code, env: { "GEM_PATH" => nil }, libs: [dir]).strip
    end
  end

  def test_with_another_malloc
    jemalloc = Dir["/usr/lib/*/libjemalloc.so.2"].first
    skip "libjemalloc2 is not installed" unless jemalloc
    assert_equal "fine", run_ruby(NOTHING_HAPPENS, env: { "LD_PRELOAD" => jemalloc }).strip
  end

  def test_supported_here
    assert_predicate Arenascope, :supported?
  end
end
