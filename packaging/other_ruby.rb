# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# ruby --disable-gems -r ./packaging/other_ruby.rb extconf.rb: for the Ruby whose rbconfig.rb $OTHER_RUBY names, by the compiler
# $OTHER_CC. That Ruby's headers stand beside the file, as in its package; nothing of it is run or linked: a Ruby may have no
# library of its own.

require "rbconfig"

path = ENV.fetch("OTHER_RUBY")
settings = File.read(path)
settings.sub!(/^ *RUBY_VERSION\.start_with.*\n.*raise.*$/, "") || abort("other_ruby.rb: #{path} is not as expected")
Object.send(:remove_const, :RbConfig)
eval(settings, TOPLEVEL_BINDING, path) # rubocop:disable Security/Eval
[RbConfig::CONFIG, RbConfig::MAKEFILE_CONFIG].each do |config|
  config.update("CC" => ENV.fetch("OTHER_CC"), "LIBRUBYARG_SHARED" => "", "LIBRUBYARG" => "")
end
