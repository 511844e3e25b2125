# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# For an initializer: require "arenascope/sidekiq". Sidekiq's processes trim after full GCs, between jobs.
require "arenascope"
require "sidekiq"

module Arenascope
  # The server middleware: a job is at work.
  class Sidekiq
    def call(_worker, _job, _queue, &block)
      Arenascope.at_work(&block)
    end
  end
end

Sidekiq.configure_server do |config|
  config.server_middleware { |chain| chain.prepend Arenascope::Sidekiq }
  config.on(:startup) { Arenascope.trim_after_gc! unless Arenascope.trimming? }
end
