# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require "arenascope"

module Arenascope
  # For config.ru: use Arenascope::Rack. Trims after full GCs, between requests, from a thread of its own; where requests are
  # always at work, every 8 intervals at most. The options are those of Arenascope.trim_after_gc!.
  class Rack
    def initialize(app, **options)
      @app = app
      Arenascope.trim_after_gc!(**options) unless options.empty? && Arenascope.trimming?
    end

    def call(env)
      finish = begin_work
      # What the server calls when the response is on its way: from Rack 3 on, and in Puma and Unicorn before.
      finished = env["rack.response_finished"] || env["rack.after_reply"]
      finished&.push(finish)
      response = @app.call(env)
      finished ? response : close_with(response, finish)
    ensure
      finish.call unless response
    end

    private

    # The end of what begins here; calling it again does nothing.
    def begin_work
      at_work = true
      Native.work(+1)
      lambda do |*|
        Native.work(-1) if at_work
        at_work = false
      end
    end

    def close_with((status, headers, body), finish)
      require "rack/body_proxy"
      [status, headers, ::Rack::BodyProxy.new(body, &finish)]
    end
  end
end
