# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# nested.rb FILE: loads nested arrays and hashes, all by one line, and tells how many strings of which size are left. A function in C calls
# itself for each level, from one place for an array, and from another one for a hash. Each order of these has strings of a size of
# its own: their call stacks differ in nothing else.
LEVELS = [6, 14, 40, 90].freeze
SHUFFLED = 6
KINDS = 10
TIMES = 60
$state = 7

def choose(among)
  $state = ($state * 1_103_515_245 + 12_345) & 0x7fffffff
  ($state >> 16) % among
end

# As many arrays as hashes; the outermost ones in any order.
def shuffled(levels)
  order = Array.new(levels, &:even?)
  inner = levels - SHUFFLED
  (levels - 1).downto(inner + 1) do |last|
    other = inner + choose(last + 1 - inner)
    order[last], order[other] = order[other], order[last]
  end
  order
end

def nested(order, text)
  order.inject(text) { |inner, is_array| is_array ? [inner] : { 0 => inner } }
end

orders = []
LEVELS.each do |levels|
  orders |= [shuffled(levels)] until orders.count { |order| order.size == levels } == KINDS
end
texts = orders.each_index.map { |number| ("x" * (9000 + 64 * number)).b }
dumps = orders.zip(texts).map { |order, text| Marshal.dump(nested(order, text)) }
DUMPS = dumps

def load_one
  Marshal.load(DUMPS[choose(DUMPS.size)])
end

kept = Array.new(TIMES * dumps.size) { load_one }
sizes = kept.map do |value|
  value = value[0] until value.is_a?(String)
  value.bytesize
end
File.open("#{ARGV[0]}.new", "w") do |file|
  sizes.tally.each { |size, count| file.puts "(#{size}, #{count})" }
  file.puts Process.pid
end
File.rename "#{ARGV[0]}.new", ARGV[0]
sleep 600
