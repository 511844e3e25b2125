# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"
require "tmpdir"

# The gem is made of libarenascope.so's own sources: neither may act in the other's place.
class PreloadedTest < Minitest::Test
  include InAnotherProcess

  # What the environment asks of a preloaded library.
  ASKED = { "ARENASCOPE_SIGNAL" => "PWR", "ARENASCOPE_TRIM" => "every=1ms", "ARENASCOPE_LOG" => "1" }.freeze

  def test_the_gem_does_not_read_the_librarys_environment
    assert_equal "0 0", run_ruby(<<~'RUBY', env: ASKED).strip
      caught = File.read("/proc/self/status")[/SigCgt:\s*(\h+)/, 1].hex
      sleep 0.1
      threads = Dir["/proc/self/task/*/comm"].map { |path| File.read(path) }
      puts "#{caught[Signal.list["PWR"] - 1]} #{threads.grep(/arenascope/).size}"
    RUBY
  end

  def test_both_in_one_process
    library = ENV["ARENASCOPE_LIBRARY"] || File.expand_path("../../build/inspector/agent/libarenascope.so", __dir__)
    skip "#{library} is not built" unless File.exist?(library)
    Dir.mktmpdir do |dir|
      link = File.join(dir, File.basename(library)) # the loader splits LD_PRELOAD at spaces
      File.symlink(library, link)
      env = { "LD_PRELOAD" => link, "ARENASCOPE_OUT" => File.join(dir, "theirs.dump") }
      assert_equal "4 true true true", run_ruby(<<~RUBY, env: env).strip
        #{LEAVE_FREE}
        Dir.chdir(#{dir.inspect})
        begin
          Arenascope.dump_on_signal("USR2")
        rescue Arenascope::Error => e
          print e.code, " "
        end
        live = leave_free
        GC.start
        print Arenascope.trim > 25_000_000 && live.any?, " "
        Arenascope.dump_on_signal("USR1") { "ours.dump" }
        Process.kill("USR1", Process.pid)
        Process.kill("USR2", Process.pid)
        puts(%w[ours theirs].map { |name| 500.times.any? { File.size?("\#{name}.dump") || (sleep(0.01) && false) } }.join(" "))
      RUBY
    end
  end
end
