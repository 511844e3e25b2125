# SPDX-License-Identifier: MIT
# frozen_string_literal: true

module Arenascope
  VERSION = "0.1.0" # arenascope's own: meson.build has it too
end
