# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  # Stands in for the C extension where it was not built. Nothing that snapshots is reached: Arenascope.supported? is false.
  module Native
    ROWS = [].freeze # none is ever counted here
    FORECASTS = %i[malloc_trim deep_trim malloc_trim_swap deep_trim_swap].freeze

    class << self
      def own_malloc?
        false
      end

      def poll
        false
      end

      def work(_change) end

      def trim_stats
        [0, 0, 0, 0, 0]
      end
    end
  end
end
