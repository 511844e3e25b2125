# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"

class VersionTest < Minitest::Test
  def test_it_is_arenascopes
    meson = File.expand_path("../../meson.build", __dir__)
    assert_equal File.read(meson)[/version: '(.*)'/, 1], Arenascope::VERSION
  end
end
