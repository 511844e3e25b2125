# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "arenascope/version"

# Where did this process's memory go, and what will bring it back?
#
# Everything here works on the process itself, on glibc's malloc. With another malloc (musl, macOS, jemalloc, JRuby)
# `supported?` is false: trims do nothing then, and methods that inspect memory raise Arenascope::UnsupportedError.
module Arenascope
  # What went wrong: what was tried, what was found, what to do. `code` is arenadump's exit code for it.
  class Error < StandardError
    attr_reader :code

    def initialize(message, code = nil)
      super(message)
      @code = code
    end
  end

  # malloc is not glibc's in this process.
  class UnsupportedError < Error; end

  class << self
    # Whether malloc is glibc's, and this extension was built for it.
    def supported?
      Native.own_malloc?
    end

    # The ledger of the process: what holds every resident byte, and what a trim would give back. All in bytes.
    def summary
      supported!
      found = Native.summary
      Summary.new(**found.slice(*Summary.members), forecast: Forecast.new(**found.slice(*Forecast.members))).freeze
    end

    # What `trim` would give back now, and what a deep trim would.
    def forecast
      summary.forecast
    end

    # Writes a dump of the heap's layout, never of its contents, for `arenascope report` and `arenadump`. With `chunks`
    # the dump has every block of memory, not only every page.
    def dump(path, chunks: false)
      supported!
      Native.dump(path.respond_to?(:to_path) ? path.to_path : path, chunks)
      path
    end

    # From now on, writes a dump whenever a condition is met, and keeps the newest in the directory `dumps`. The conditions are
    # words of ARENASCOPE_DUMP_AT in arenascope(7): "peak,+64M,rss=1G,every=10s,keep=8,dumps-size=1G"; nil: no more. The
    # snapshots are made by a thread of the library's, without the GVL. A forked process has to ask for it itself.
    def dump_at(conditions, dumps: "arenascope.dumps", chunks: false)
      supported!
      Native.dump_at(conditions, dumps.respond_to?(:to_path) ? dumps.to_path : dumps, chunks)
    end

    # Gives free memory back to the kernel, without the GVL. Returns how many bytes came back, by the kernel's page tables
    # (nil if the kernel does not say).
    #
    # deep::     also return memory that malloc_trim never returns, such as the tops of thread arenas.
    # max_hold:: maximum time in seconds for which an arena is locked at a time; without it, there is no limit.
    def trim(deep: false, max_hold: nil)
      nanoseconds = max_hold ? Integer(Float(max_hold) * 1_000_000_000) : 0
      raise ArgumentError, "max_hold must be positive" if max_hold && !nanoseconds.positive?

      supported? ? Native.trim(deep, nanoseconds) : 0
    end

    private

    def supported!
      raise UnsupportedError, "malloc is not glibc's in this process, so there is nothing to inspect" unless supported?
    end
  end

  # A gem of binaries has a library for each of some Rubies, and the others are told: they would trim nothing without a word.
  built_for = Dir.glob("[0-9]*", base: File.join(__dir__, "arenascope")).sort
  own = RUBY_VERSION[/\d+\.\d+/]
  if RUBY_ENGINE == "ruby" && !built_for.empty? && !built_for.include?(own)
    raise LoadError, "this gem of arenascope is built for Ruby #{built_for.join(", ")} and cannot serve #{own}; " \
                     "install the gem of sources, arenascope-#{VERSION}.gem"
  end

  begin
    require ["arenascope", *(own unless built_for.empty?), "arenascope"].join("/")
  rescue LoadError # a platform for which nothing was built (ext/arenascope/extconf.rb)
    require_relative "arenascope/unsupported"
  end
  private_constant :Native
end

require_relative "arenascope/values" # whose members are the extension's rows
require_relative "arenascope/after_gc"
require_relative "arenascope/on_signal"
