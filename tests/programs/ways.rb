# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# ways.rb FILE: allocates by some hundred call stacks, again and again in no order, and tells what it made by each.
#
# Many of them differ in nothing but one frame: a caller's line, a C function, or a method that stands where another one has died.

# Each of the C functions that the same instruction calls has its own size. A String has a byte more.
CHANGE = %i[upcase downcase capitalize swapcase reverse].freeze
DATA = CHANGE.each_index.map { |way| "x" * (2001 + (512 * way)) }.freeze
KEPT = []
TRUTH = Hash.new(0)
OF_C = %w[each map times public_send eval instance_eval].freeze
$state = 7

def choose(among)
  $state = (($state * 1_103_515_245) + 12_345) & 0x7fffffff
  ($state >> 16) % among
end

def keep(way, made)
  stack = caller_locations(1).map { |at| [at.label, at.lineno, File.basename(at.path)] }
  KEPT << made
  TRUTH[[way, stack.reject { |label, _, file| OF_C.include?(label.split(/[#.]/).last) && !file.start_with?("<") }]] += 1
end

def leaf
  6.times do
    way = choose(CHANGE.size)
    keep(way, DATA[way].public_send(CHANGE[way]))
  end
end

# Many callers' lines, and lines of their callers, among the innermost frames.
def bare
  way = choose(CHANGE.size)
  keep(way, DATA[way].public_send(CHANGE[way]))
end
eval "def many\n#{"bare\n" * 8}end", TOPLEVEL_BINDING, "many.rb"
eval "def more\n#{"many\n" * 8}end", TOPLEVEL_BINDING, "more.rb"
eval "def most\n#{"more\n" * 4}end", TOPLEVEL_BINDING, "most.rb"

def left(depth)
  if depth.zero?
    leaf
    leaf
    most if choose(32).zero?
  elsif choose(2) == 1
    right(depth - 1)
  else
    left(depth - 1)
  end
end

def right(depth)
  if depth.zero?
    leaf
  elsif choose(2) == 1
    left(depth - 1)
  else
    [depth - 1].each { |less| right(less) }
  end
end

def made(lines)
  text = "#{"\n" * lines}def gone\n  9.times { keep(0, DATA[0].upcase) }\nend"
  eval text, TOPLEVEL_BINDING, "made.rb" # rubocop:disable Security/Eval
  gone
end

1500.times do |at|
  left(4)
  made(at / 20 % 7) if (at % 20).zero?
end
File.open("#{ARGV[0]}.new", "w") do |file|
  TRUTH.each { |(way, stack), count| file.puts [count, way, stack].inspect }
  file.puts Process.pid
end
File.rename "#{ARGV[0]}.new", ARGV[0]
sleep 600
