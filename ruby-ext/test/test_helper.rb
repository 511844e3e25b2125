# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"
require "arenascope"
# Says why, where the extension cannot be loaded: what serves in its place trims nothing, and tests would wait.
require "arenascope/arenascope"

# What cannot be tested here is said, and not allowed in CI.
module NoSilentSkips
  def skip(reason = nil, *)
    flunk("skipped, which CI does not allow: #{reason}") if ENV["CI"]
    puts "skipped: #{reason}"
    super
  end
end
Minitest::Test.prepend(NoSilentSkips)

module InAnotherProcess
  # As it is installed (rake test:installed), or here.
  LIBS = Gem.loaded_specs["arenascope"]&.full_require_paths || [File.expand_path("../lib", __dir__)]

  # What a Ruby prints that runs `code` with the gem loaded; nothing may appear on its standard error.
  def run_ruby(code, env: {}, libs: LIBS)
    command = [RbConfig.ruby, "-w", *libs.map { |lib| "-I#{lib}" }, "-e", "require 'arenascope'\n#{code}"]
    out, err, status = Open3.capture3({ "RUBYOPT" => nil }.merge(env), *command)
    assert status.success?, "#{status}: #{out}#{err}"
    assert_empty err
    out
  end

  # As code for run_ruby: leaves some 60 MB free, scattered between live strings, and returns those.
  LEAVE_FREE = <<~'RUBY'
    def leave_free
      strings = Array.new(12_000) { |i| "x" * (i.even? ? 10_000 : 40) }
      live = strings.each_slice(2).map(&:last)
      strings = nil
      live
    end
    def resident
      File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i * 1024
    end
  RUBY
end
