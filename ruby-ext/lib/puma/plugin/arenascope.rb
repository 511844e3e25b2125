# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# For config/puma.rb: plugin :arenascope. Each worker trims after full GCs, soonest when none of its threads has a request.
require "arenascope"
require "puma/plugin"

Puma::Plugin.create do
  def config(dsl)
    Arenascope.trim_after_gc! unless Arenascope.trimming?
    dsl.out_of_band { Arenascope.trim_if_due } if dsl.respond_to?(:out_of_band) # Puma 5
  end
end
