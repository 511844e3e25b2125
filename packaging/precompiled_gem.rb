# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# ruby packaging/precompiled_gem.rb PLATFORM OUTPUT, in the unpacked gem of sources, where lib/arenascope/ has for each of some
# Rubies a folder with its library: packs a gem that needs no compiler. It has no sources in C, and serves these Rubies.

require "rubygems/package"

platform, output = ARGV
rubies = Dir.glob("lib/arenascope/[0-9]*").map { |folder| File.basename(folder) }.sort_by { |name| Gem::Version.new(name) }
spec = Gem::Specification.load("arenascope.gemspec")
spec.platform = platform
spec.extensions.clear
spec.files = spec.files.reject { |file| file.start_with?("ext/") } + rubies.map { |name| "lib/arenascope/#{name}/arenascope.so" }
spec.files.sort!
spec.required_ruby_version = [">= #{rubies.first}.0", "< #{rubies.last.sub(/\d+\z/, &:succ)}.dev"]
Gem::Package.build(spec, false, false, output)
