# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# Builds the extension together with the inspector's own C sources: the gem needs no arenascope on the machine. Where there is
# no glibc, or no Ruby that takes C extensions as MRI does, nothing is built and lib/arenascope/unsupported.rb serves.

require "mkmf"
require "pathname"
require_relative "../../lib/arenascope/version"

# By the way from the build's folder: make splits names at spaces, which an absolute path may have.
def from_here(path)
  Pathname(path).relative_path_from(Pathname.pwd).to_s
end

# rake-compiler says where the extension goes, by an absolute path, too.
%w[sitearchdir sitelibdir].each do |name|
  place = RbConfig::MAKEFILE_CONFIG[name].to_s
  RbConfig::MAKEFILE_CONFIG[name] = RbConfig::CONFIG[name] = from_here(place) if place.include?(" ")
end

# In the gem a copy stands here; in arenascope's repository the sources themselves serve.
HERE = from_here(__dir__)
INSPECTOR = [File.join(HERE, "inspector"), from_here(File.join(__dir__, "../../../inspector"))].find { |dir| Dir.exist?(dir) }

# What of the inspector runs inside a process. Not DWARF (libdw), no answers kept for a server, no pictures (libpng), nor what a
# preloaded library's environment asks for.
PARTS = %w[base model target libc malloc runtimes ledger profile snapshot dump trim agent].freeze
LEFT_OUT = %w[
  libc/dwarf.c libc/kept_answers.c agent/environment.c agent/exit_leaks.c agent/preload/preloaded.c agent/preload/trace_file.c
].freeze
# No recorder (AS_NO_RECORDER): a gem that is loaded late records nothing. code_objects.c is the agent's, too.
SINGLE = %w[recorder/code_objects.c].freeze

def supported?
  RUBY_ENGINE == "ruby" && INSPECTOR &&
    checking_for("glibc on a processor that arenascope knows") do
      try_compile(<<~C)
        #include <stdlib.h>
        #if !defined(__GLIBC__) || defined(__UCLIBC__) || !(defined(__x86_64__) || defined(__aarch64__))
        #error
        #endif
        int main(void) { return 0; }
      C
    end
end

# mkmf names an object after its file's last part; the inspector has some names twice, so its objects are named after both.
def inspector_objects
  sources = PARTS.flat_map { |part| Dir.glob("#{part}/**/*.c", base: INSPECTOR).sort }
  others = /_(?!#{RbConfig::CONFIG["host_cpu"]})(x86_64|aarch64)\.c\z/
  sources.reject! { |source| source.match?(others) }
  (sources - LEFT_OUT + SINGLE).to_h { |source| [source.tr("/", "_").sub(/c\z/, "o"), source] }
end

unless supported?
  File.write("Makefile", dummy_makefile($srcdir).join)
  exit
end

objects = inspector_objects
$defs << "-D_GNU_SOURCE"
$warnflags = "-Wall -Wextra -Wno-unused-parameter -Wno-declaration-after-statement"
$CFLAGS << " -std=gnu11 -fvisibility=hidden -ffunction-sections -fdata-sections -MMD -MP" # mkmf knows of no header elsewhere
if ENV["ARENASCOPE_WERROR"]
  $CFLAGS << " -Werror"
  # A function that nobody has: the linker tells, where Ruby is a library itself. Else the extension could not be loaded, and
  # lib/arenascope/unsupported.rb would serve without a word.
  $DLDFLAGS << " -Wl,-z,defs" if RbConfig::CONFIG["ENABLE_SHARED"] == "yes"
end
$INCFLAGS << " -I#{INSPECTOR}/include"
# Only Init is to be seen: an arenascope preloaded into the process keeps its own functions, and so do we.
$DLDFLAGS << " -Wl,--version-script=#{HERE}/exports.map -Wl,--gc-sections -Wl,-Bsymbolic -Wl,-z,nodelete"
# Before glibc 2.34 dladdr, and the inspector's weak and versioned references to threads, need the libraries that have them.
$LOCAL_LIBS << " -Wl,--push-state,--no-as-needed -lpthread -ldl -Wl,--pop-state"

$srcs = Dir[File.join(HERE, "*.c")].sort
$objs = $srcs.map { |source| "#{File.basename(source, ".c")}.o" } + objects.keys

create_makefile("arenascope/arenascope")

# compat.h reads what Meson makes elsewhere; the version comes by the command line, and neither library is used here.
File.write("config.h", "#pragma once\n")

# The inspector sees none of Ruby's headers, nor the settings made for them.
File.open("Makefile", "a") do |makefile|
  objects.each do |object, source|
    makefile.write(<<~MAKE)

      #{object}: #{INSPECTOR}/#{source}
      \t$(ECHO) compiling #{source}
      \t$(Q) $(CC) -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections \\
      \t\t-DAS_NO_RECORDER -DAS_VERSION='"#{Arenascope::VERSION}"' -I. -I#{INSPECTOR} -I#{INSPECTOR}/include -include agent/compat.h \\
      \t\t-D_GNU_SOURCE -MMD -MP -c -o $@ $<
    MAKE
  end
  makefile.write("\n-include $(wildcard *.d)\n")
end
