# SPDX-License-Identifier: MIT
# A Ruby that has a Python in it, by the library whose path is the argument, and holds strings.
require "fiddle"

python = Fiddle.dlopen(ARGV[0])
Fiddle::Function.new(python["Py_InitializeEx"], [Fiddle::TYPE_INT], Fiddle::TYPE_VOID).call(0)
kept = Array.new(10_000) { |i| "a string of more bytes than an object has #{i}" }
puts "ready"
$stdout.flush
$stdin.read
puts kept.size
