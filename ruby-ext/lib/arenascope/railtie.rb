# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# For a Gemfile: gem "arenascope", require: "arenascope/railtie".
require "arenascope/rack"
require "rails/railtie"
require "active_support/ordered_options"

module Arenascope
  # Puts Arenascope::Rack before all other middleware. In config/application.rb, if something is to be otherwise:
  #
  #   config.arenascope.trim = false
  #   config.arenascope.min_interval = 1 # and the other options of Arenascope.trim_after_gc!
  #   config.arenascope.dump_on_signal = "USR2"
  class Railtie < ::Rails::Railtie
    config.arenascope = ActiveSupport::OrderedOptions[trim: true]

    initializer "arenascope" do |app|
      wanted = app.config.arenascope
      options = wanted.to_h.slice(:min_interval, :min_releasable, :deep, :in)
      app.middleware.insert(0, Arenascope::Rack, **options) if wanted.trim
      Arenascope.dump_on_signal(wanted.dump_on_signal) if wanted.dump_on_signal && Arenascope.supported?
    end
  end
end
