# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# Threads make strings of all sizes, keep each for a while and drop it: a busy server. With a quiet tail (TICKS) they then go
# on with next to nothing. Arguments: THREADS ITERATIONS KEPT TICKS, of which the last three are of each thread.

THREADS, ITERATIONS, KEPT, TICKS = ARGV.map { |word| Integer(word) }
SMALLEST = 1 << 10
LARGEST = 1 << 16
SPAN = Math.log(LARGEST.fdiv(SMALLEST))
TICK = 0.01 # seconds

def string(random)
  "x" * (SMALLEST * Math.exp(random.rand * SPAN)).to_i # sizes are log-uniform
end

def burst(random)
  kept = Array.new(KEPT)
  ITERATIONS.times { kept[random.rand(KEPT)] = string(random) }
  kept
end

def quiet(kept, random)
  kept.fill(nil, KEPT / 8) # what outlives the burst
  TICKS.times do
    sleep TICK
    kept[random.rand(kept.size)] = "x" * 200
  end
end

$stdout.sync = true
puts "ready"
threads = Array.new(THREADS) do |seed|
  Thread.new do
    random = Random.new(seed)
    kept = burst(random)
    quiet(kept, random) if TICKS.positive?
    Thread.current[:kept] = kept
    Thread.stop # a server's threads live on
  end
end
sleep 0.005 until threads.all? { |thread| thread[:kept] && thread.stop? }
puts "arenascope report operations=#{THREADS * (ITERATIONS + TICKS)}"
puts "done"
exit unless $stdin.gets
GC.start
puts "arenascope mark after-gc"
$stdin.read
