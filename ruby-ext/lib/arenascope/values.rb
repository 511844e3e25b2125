# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  # What would come back now, in bytes: by malloc_trim, and by a deep trim (which gives back that as well).
  Forecast = Struct.new(*Native::FORECASTS, keyword_init: true) do
    def initialize(...)
      super
      freeze
    end
  end

  # The rows of the ledger, which add up to rss, and what is beside them. In bytes; what could not be told apart is nil in its own
  # row and counted in `unknown`. `ruby_pages` is such a row: the pages of Ruby's own heap. How many those are, how many objects
  # they have room for, and how many of these slots are free stands in the three behind it. `exact` is false if threads of the
  # process ran meanwhile, as they do. arenascope's docs/ledger.md defines each row.
  Summary = Struct.new(
    :rss, :swap, *Native::ROWS, :ruby_page_count, :ruby_slots, :ruby_free_slots,
    :arenas, :heaps, :threads, :torn_chunks, :longest_hold, :exact, :forecast,
    keyword_init: true
  ) do
    def initialize(...)
      super
      freeze
    end
  end

  # What the trims after full GCs did so far: how many; by how many bytes the process's resident anonymous memory fell while they
  # ran (nil if once that could not be read), which is not quite what they gave back where other threads allocate meanwhile, and
  # which the kernel counts to some pages for each processor; how long they took together and the longest of them (seconds); and
  # how many were not made because little would have come back. A child of fork() goes on with its parent's.
  TrimStats = Struct.new(:count, :bytes, :time, :longest, :declined, keyword_init: true) do
    def initialize(...)
      super
      freeze
    end
  end
end
