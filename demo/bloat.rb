# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# A busy hour in a multi-threaded server, in a few seconds: ten threads make strings of all sizes and keep some of them for a
# while, then nearly all of it becomes garbage. Ruby frees it, yet the process stays as big as it was. Prints "ready" and
# waits to be inspected.

THREADS = 10
ROUNDS = 30
KEPT = 400 # strings that each thread has at hand while busy
SIZES = (10..16).map { |log2| 1 << log2 } # 1 to 64 KiB

def busy_hour(random)
  kept = Array.new(KEPT)
  (ROUNDS * KEPT).times do
    kept[random.rand(KEPT)] = "x" * (SIZES.sample(random: random) + random.rand(1024))
  end
  kept.sample(KEPT / 8, random: random).compact # what outlives the hour
end

sessions = Array.new(THREADS) do |seed|
  results = Queue.new
  # The threads live on, idle, as those of a server do.
  Thread.new do
    results << busy_hour(Random.new(seed))
    sleep
  end
  results
end.map(&:pop)

GC.start

live = sessions.sum { |strings| strings.sum(&:bytesize) }
puts format("pid %d: the program holds %.1f MB of strings", Process.pid, live / 1e6)
puts "ready"
$stdout.flush
$stdin.read
