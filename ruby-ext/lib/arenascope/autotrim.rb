# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# For a Gemfile: gem "arenascope", require: "arenascope/autotrim". Trims after full GCs, with the defaults.
require "arenascope"

Arenascope.trim_after_gc!
