# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  # meson.build states it. A gem has the number itself here, by `rake build`.
  VERSION = File.read(File.expand_path("../../../meson.build", __dir__))[/ version: '(.*)'/, 1].freeze
end
