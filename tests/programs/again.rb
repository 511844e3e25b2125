# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# again.rb DEPTH COUNT: allocates COUNT times below DEPTH methods, by the same stacks, prints its PID, and waits.

KEPT = []

def inner(count)
  count.times do |at|
    KEPT << String.new(capacity: 2000)
    KEPT[at % 100] = String.new(capacity: 2000)
  end
end

def deep(depth, count)
  if depth.positive?
    deep(depth - 1, count)
  else
    inner(count)
  end
end

GC.disable
deep(ARGV[0].to_i, ARGV[1].to_i)
$stdout.puts Process.pid
$stdout.flush
sleep 600
