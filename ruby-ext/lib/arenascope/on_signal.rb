# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  # What a signal's disposition is called if nobody has asked for the signal, and nobody ignores it.
  UNTAKEN = %w[DEFAULT SYSTEM_DEFAULT].freeze
  private_constant :UNTAKEN

  class << self
    # From now on, writes a dump whenever the signal arrives. The block returns the file's name, and may be called often. Without
    # a block the name is arenascope.PROGRAM.PID.COUNT.dump, in the directory that is current now. Raises Error if the application
    # uses the signal itself, as Puma uses USR2: choose another signal.
    def dump_on_signal(signal, chunks: false, &name)
      supported!
      count = 0
      program = File.basename($PROGRAM_NAME)[/\A[\w.-]+/]
      directory = Dir.pwd
      name ||= -> { File.join(directory, "arenascope.#{program}.#{Process.pid}.#{count += 1}.dump") }
      # A handler may not take a Mutex, so it does not do the work.
      handler = proc { Thread.new { warn_if_it_fails { dump(name.call, chunks: chunks) } } }
      taken!(signal) if foreign?(signal)
      before = trap(signal, &handler)
      return if UNTAKEN.include?(before)

      trap(signal, before)
      taken!(signal)
    end

    private

    def foreign?(signal)
      number = signal.is_a?(Integer) ? signal : Signal.list[signal.to_s.delete_prefix("SIG")]
      number && Native.handled?(number) # else trap says what is wrong with it
    end

    def taken!(signal)
      raise Error.new("#{signal} is handled or ignored by the application already; choose another signal", 4)
    end

    def warn_if_it_fails
      yield
    rescue Error => e
      warn("arenascope: #{e.message}")
    end
  end
end
