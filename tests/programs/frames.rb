# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# Knows the Ruby stack of each of its blocks: labels and lines, innermost first. Writes them down, and waits.
#
# frames.rb FILE ACT... - as tests/profiles/test_profile_ruby.py runs it, with no library.

SIZE = 9001 # of all blocks, and of no other
KEPT = []
TRUTH = Hash.new(0)
LOCK = Mutex.new

# These are all of C's functions that are called here and have a control frame. No method of the program has such a
# name.
OF_C = %w[
  each map times call new sort_by sort instance_eval instance_exec class_eval module_eval eval catch loop each_with_index
  inject public_send __send__ send synchronize resume next tap then join value each_entry fetch yield define_method
  each_value throw raise sum min_by enable <<
].freeze

def of_ruby(stack)
  named = stack.map { |label, line, path| [label, line, File.basename(path || "")] }
  named.reject { |label, _, file| OF_C.include?(label.split(/[#.]/).last) && !file.start_with?("<") }
end

# The block was made in the line that calls this; or in functions that it has called, and that have returned since.
def keep(made, *inner)
  stack = of_ruby(inner + caller_locations(1).map { |at| [at.label, at.lineno, at.path] })
  LOCK.synchronize do
    KEPT << made
    TRUTH[stack] += 1
  end
end

def left
  60.times { keep String.new(capacity: SIZE) }
end

def right
  i = 0
  while i < 90
    keep String.new(capacity: SIZE)
    i += 1
  end
  keep String.new(capacity: SIZE)
end

def plain
  left
  left
  right
  left
end

def sink(depth)
  return sink(depth - 1) + 1 if depth.positive?

  keep String.new(capacity: SIZE)
  0
end

def recursion
  [0, 1, 2, 30, 31, 200].each { |depth| 3.times { sink(depth) } }
  sink(100)
  sink(100)
end

def yielder
  keep String.new(capacity: SIZE)
  yield 1
  keep String.new(capacity: SIZE)
  yield 2
end

class Value
  include Comparable

  attr_reader :value

  define_method(:defined) { keep String.new(capacity: SIZE) }

  def initialize(value)
    keep String.new(capacity: SIZE)
    @value = value
  end

  def <=>(other)
    keep String.new(capacity: SIZE)
    value <=> other.value
  end

  def hash
    keep String.new(capacity: SIZE)
    1
  end

  def eql?(other)
    sink(3)
    value == other.value
  end

  def to_s
    keep String.new(capacity: SIZE)
    "value"
  end

  def method_missing(name, *)
    keep String.new(capacity: SIZE)
    name
  end
end

class Derived < Value
  def initialize(value)
    super
    keep String.new(capacity: SIZE)
  end

  def defined
    super
    keep String.new(capacity: SIZE)
  end
end

def blocks
  yielder { |_| keep String.new(capacity: SIZE) }
  [1, 2].each_with_index { |value, index| [value].map { |each| sink(each + index) } }
  made = proc { keep String.new(capacity: SIZE) }
  made.call
  2.times(&made)
  called = ->(depth) { sink(depth) }
  called.call(2)
  called.(3)
  [1, 2].each(&called)
  method(:sink).call(1)
  [2, 1].each(&method(:sink))
end

def callbacks
  [3, 1, 2].sort_by { |value| keep(String.new(capacity: SIZE)) || value }
  [Value.new(2), Value.new(1), Value.new(3)].sort
  Derived.new(3).defined
  { Value.new(1) => 1, Value.new(2) => 2 }
  "#{Value.new(5)} is shown"
  first = Value.new(4)
  first.absent
  first.public_send(:other, 1)
  table = Hash.new { |_, key| sink(key) }
  table[2]
  [Value.new(1), Value.new(2)].min_by { |value| [value, Value.new(0)].min.value }
  (1..3).inject { |sum, value| sink(value) + sum }
  instance_eval { keep String.new(capacity: SIZE) }
  Value.class_eval { TOP.__send__(:keep, String.new(capacity: SIZE)) }
  catch(:done) do
    keep String.new(capacity: SIZE)
    [1].each { throw :done }
  end
  loop do
    keep String.new(capacity: SIZE)
    break
  end
end

def broken(depth)
  if depth.zero?
    keep String.new(capacity: SIZE)
    raise ArgumentError
  end
  begin
    [1].each { broken(depth - 1) }
  ensure
    keep String.new(capacity: SIZE)
  end
end

def exceptions
  [1, 2, 5].each do |depth|
    broken(depth)
  rescue ArgumentError
    keep String.new(capacity: SIZE)
    sink(1)
    begin
      broken(0)
    rescue ArgumentError => e
      sink(e.backtrace.size - e.backtrace.size)
      1.times { keep String.new(capacity: SIZE) }
    end
  end
  Integer("none", exception: false)
  Integer("none") rescue keep(String.new(capacity: SIZE))
end

def texts
  eval "sink(2)\n\nsink(1)", binding, "given.rb", 5
  eval "keep String.new(capacity: SIZE)", nil, "given.rb", 7
  instance_eval "[1].each { sink(1) }", "other.rb", 9
  Object.class_eval "def given_by_text\n\n keep String.new(capacity: SIZE)\nend", "class.rb", 11
  given_by_text
  eval "def long\n#{"sink(0)\n" * 1500}end", TOPLEVEL_BINDING, "long.rb"
  long
end

# Methods that die, and others of the same name where they were: only their lines differ, or nothing.
def made_and_gone
  200.times do |number|
    before = number % 40
    eval "def made\n#{"\n" * before}  String.new(capacity: SIZE)\nend", TOPLEVEL_BINDING, "made#{number % 3}.rb", 1
    keep made, ["made", before + 2, "made#{number % 3}.rb"]
    GC.start if (number % 20).zero?
    GC.start(full_mark: false) if number % 7 == 1
  end
end

def changing(step)
  keep String.new(capacity: SIZE)
  if step == 1
    Object.class_eval "def changing(step)\n  keep String.new(capacity: SIZE)\nend", "changed.rb", 100
    changing(2)
  end
  keep String.new(capacity: SIZE)
end

def counting
  Enumerator.new do |out|
    3.times do |at|
      keep String.new(capacity: SIZE)
      out << at
      sink(at)
    end
  end
end

def fibers
  first = Fiber.new do |depth|
    loop do
      sink(depth)
      depth = Fiber.yield
    end
  end
  first.resume(1)
  second = Fiber.new { first.resume(40) && sink(1) || sink(2) }
  sink(3)
  second.resume
  each = counting
  3.times { each.next }
  counting.each { |at| sink(at) }
  Fiber.new { Fiber.new { plain }.resume }.resume
end

def threads
  8.times.map { |depth| Thread.new { sink(depth) || left } }.each(&:join)
  4.times.map { |depth| Thread.new { Fiber.new { sink(depth) }.resume } }.each(&:join)
end

def compacted
  GC.compact if GC.respond_to?(:compact)
  plain
  sink(5)
end

def traced
  seen = 0
  hook = TracePoint.new(:call) { sink(0) if (seen += 1) == 2 }
  hook.enable { left }
  sink(1)
end

def ractors
  return unless defined?(Ractor)

  Warning[:experimental] = false
  made = Ractor.new do
    3.times.map { [String.new(capacity: SIZE), caller_locations(0).map { |at| [at.label, at.lineno, at.path] }] }
  end
  (made.respond_to?(:value) ? made.value : made.take).each do |block, stack|
    KEPT << block
    TRUTH[of_ruby(stack)] += 1
  end
end

def fork_child
  child = fork
  name = ARGV[0] + (child ? "" : ".child")
  plain
  sink(9)
  tell name
end

def tell(name)
  File.open("#{name}.new", "w") do |file|
    TRUTH.each { |stack, count| file.puts [count, stack].inspect }
    file.puts [Process.pid, RUBY_VERSION].inspect
  end
  File.rename "#{name}.new", name
  sleep 600
end

TOP = self
%w[plain recursion blocks callbacks exceptions texts made_and_gone fibers threads compacted traced
   ractors].each { |act| __send__(act) }
changing(1)
fork_child if ARGV.include?("fork")
tell ARGV[0]
