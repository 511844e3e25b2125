# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"
require "tmpdir"

class OnSignalTest < Minitest::Test
  include InAnotherProcess

  WAIT = <<~RUBY
    def wait
      500.times { yield ? (return true) : sleep(0.01) }
      false
    end
  RUBY

  def test_a_dump_for_each_signal
    Dir.mktmpdir do |dir|
      assert_equal "true true", run_ruby(<<~RUBY).strip
        #{WAIT}
        Dir.chdir(#{dir.inspect})
        $PROGRAM_NAME = "shop: worker 3"
        Arenascope.dump_on_signal("USR2")
        Dir.chdir("/")
        written = [1, 2].map do |n|
          Process.kill("USR2", Process.pid)
          wait { File.size?(File.join(#{dir.inspect}, "arenascope.shop.\#{Process.pid}.\#{n}.dump")) }
        end
        puts written.join(" ")
      RUBY
    end
  end

  def test_a_name_of_ones_own
    Dir.mktmpdir do |dir|
      path = File.join(dir, "mine.dump")
      assert_equal "true", run_ruby(<<~RUBY).strip
        #{WAIT}
        Arenascope.dump_on_signal(:USR1, chunks: true) { #{path.inspect} }
        Process.kill("USR1", Process.pid)
        puts wait { File.size?(#{path.inspect}) }
      RUBY
    end
  end

  def test_a_signal_that_the_application_ignores
    [nil, "IGNORE"].each do |ignored|
      assert_equal "4", run_ruby(<<~RUBY).strip
        trap("USR2", #{ignored.inspect})
        Arenascope.dump_on_signal("USR2") rescue print $!.code
        Process.kill("USR2", Process.pid)
        sleep 0.05
      RUBY
    end
  end

  def test_a_signal_that_the_application_has
    assert_equal "4 mine", run_ruby(<<~RUBY).strip
      trap("USR2") { puts "mine" }
      begin
        Arenascope.dump_on_signal("USR2")
      rescue Arenascope::Error => e
        print e.code, " "
      end
      Process.kill("USR2", Process.pid)
      sleep 0.05
    RUBY
  end
end
