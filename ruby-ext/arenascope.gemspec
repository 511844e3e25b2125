# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "lib/arenascope/version"

if defined?(Gem::Commands::BuildCommand) && !File.exist?(File.join(__dir__, "ext/arenascope/inspector"))
  abort "arenascope.gemspec: without the inspector's sources the gem does nothing, and they are not here: run `rake build`"
end

Gem::Specification.new do |spec|
  spec.name = "arenascope"
  spec.version = Arenascope::VERSION
  spec.authors = ["arenascope's authors"]

  spec.summary = "Where did this Ruby process's memory go? And give it back."
  spec.description = <<~TEXT
    What glibc's malloc keeps after Ruby has freed it: the ledger of the process, to the byte, a dump to draw, and trims
    after full garbage collections. Does nothing, and says so, where malloc is not glibc's.
  TEXT
  spec.license = "MIT"
  spec.required_ruby_version = ">= 2.7.0"
  spec.metadata["rubygems_mfa_required"] = "true"

  # The inspector's sources and the licence are there where `rake build` builds it.
  spec.files = Dir.chdir(__dir__) do
    Dir["lib/**/*.rb", "ext/**/*.{rb,c,h,def,map}", "README.md", "LICENSE"]
  end
  spec.require_paths = ["lib"]
  spec.extensions = ["ext/arenascope/extconf.rb"]
end
