# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# A burst of work and then a quiet time, as a server has them: ten threads make and drop strings of all sizes, and once they
# are done one thread goes on, gently. Full GCs are begun as Ruby itself begins them, to mark in steps and to sweep as slots are
# needed. Prints what became of the process as one line of JSON (nothing is required for that: it also runs in a Ruby without
# extensions).

THREADS = 10
LIVE = 9_000_000 # bytes of strings, of all threads together
SMALLEST = 1024
LARGEST = 64 * 1024
MADE = 6_000 # strings a thread makes in the burst
QUIET = 3 # full GCs

# Sizes are log-uniform: as many between 1 and 2 KiB as between 32 and 64.
def size(random)
  (SMALLEST * ((LARGEST / SMALLEST)**random.rand)).to_i
end

def burst(random)
  kept = Array.new(LIVE / THREADS / 15_000) # the mean size is about 15 kB
  MADE.times { kept[random.rand(kept.size)] = "x" * size(random) }
  kept
end

def status(field)
  File.foreach("/proc/self/status") { |line| return line[/\d+/].to_i if line.start_with?("#{field}:") }
end

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
sessions = Array.new(THREADS) do |seed|
  results = Queue.new
  Thread.new do
    results << burst(Random.new(seed))
    sleep # the threads live on, idle, and so do their arenas
  end
  results
end.map(&:pop)

after_burst = status("VmRSS")
sessions.each { |kept| kept.fill(nil, kept.size / 8) }
QUIET.times do
  GC.start(immediate_mark: false, immediate_sweep: false)
  steps = 0
  until GC.latest_gc_info(:state) == :none
    abort "this GC does not end" if (steps += 1) > 10_000_000
    "y" * 100
  end
end

# No argument for GC.stat: the keys exist only in a patched Ruby.
stat = GC.stat
found = {
  after_burst_kb: after_burst,
  rss_kb: status("VmRSS"),
  wall_s: (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started).round(3),
  cpu_s: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID).round(3),
  major_gc_count: stat[:major_gc_count],
  malloc_trim_count: stat[:malloc_trim_count],
  malloc_trim_time: stat[:malloc_trim_time],
}
puts "{#{found.map { |key, value| "\"#{key}\": #{value || 'null'}" }.join(', ')}}"
