# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  # The bytes that would come back now: by malloc_trim, and by a deep trim, which includes malloc_trim.
  Forecast = Struct.new(*Native::FORECASTS, keyword_init: true) do
    def initialize(...)
      super
      freeze
    end
  end

  # The rows of the ledger, which add up to rss, and other numbers beside them, in bytes. An unknown number is nil. `ruby_pages`
  # is the row of Ruby's own heap. The three members behind it are the number of these pages, of their slots, and of the free
  # slots. `exact` is false if threads of the process ran meanwhile, which is usual. arenascope's docs/ledger.md defines each row.
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

  # What the trims after full GCs did so far:
  #
  # count::    the number of trims.
  # bytes::    how far the process's resident anonymous memory fell while they ran; nil if it could not be read once. Other
  #            threads that allocate meanwhile change this number, and the kernel's count is off by some pages per processor.
  # time::     how long the trims took in total, in seconds.
  # longest::  how long the longest trim took, in seconds.
  # declined:: the number of trims that were not made because little would have come back.
  #
  # A child of fork() continues with the numbers of its parent.
  TrimStats = Struct.new(:count, :bytes, :time, :longest, :declined, keyword_init: true) do
    def initialize(...)
      super
      freeze
    end
  end
end
