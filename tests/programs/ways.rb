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
  KEPT << made
  count(1, way, caller_locations(1))
end

def count(blocks, way, locations)
  stack = locations.map { |at| [at.label, at.lineno, File.basename(at.path)] }
  TRUTH[[way, stack.reject { |label, _, file| OF_C.include?(label.split(/[#.]/).last) && !file.start_with?("<") }]] += blocks
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

# More lines of one caller than the recorder's memo has sets, and nothing else differs or is allocated between them: wherever they are, two
# meet in a set. The caller is the first, the second, … outside of `lean`. First they are counted, then the blocks are made: in rounds, as the
# memo does not take in each context at once.
ROUNDS = 20
def lean
  $counts ? count(ROUNDS, 0, caller_locations(0)) : KEPT << DATA[0].public_send(:upcase)
end
STEPS = (1..5).map { |far| :"step_#{far}_#{far - 1}" }.freeze
STEPS.each.with_index(1) do |_, far|
  far.times do |step|
    call = step.zero? ? "lean" : "step_#{far}_#{step - 1}"
    eval "def step_#{far}_#{step}\n#{"#{call}\n" * (step == far - 1 ? 100 : 1)}end", TOPLEVEL_BINDING, "steps.rb"
  end
end

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

[1, ROUNDS].each do |rounds|
  $counts = rounds == 1
  STEPS.each { |step| rounds.times { send(step) } }
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
