# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# /SEED: a page that depends on the seed alone, rendered from rows that are made for it and dropped.

require "json"

WORDS = %w[arena bin chunk fastbin heap page pin resident tcache top trim].freeze

def rows(random, count)
  Array.new(count) do |id|
    words = Array.new(12) { WORDS.sample(random: random) }
    { id: id, title: words.join(" "), body: words.join(", ") * 4, tags: words.uniq, score: random.rand }
  end
end

def page(rows)
  lines = rows.map { |row| "<tr><td>#{row[:id]}<td>#{row[:title]}<td>#{row[:body]}<td>#{row[:tags].join(' ')}" }
  "<!doctype html><table>#{lines.join("\n")}</table>"
end

# With the gem loaded it trims between requests.
if defined?(Arenascope)
  require "arenascope/rack"
  use Arenascope::Rack
end

run lambda { |env|
  seed = env["PATH_INFO"].delete_prefix("/").to_i
  random = Random.new(seed)
  count = 10 * (2**random.rand(0.0..6.0)).to_i
  count *= 10 if (seed % 100).zero? # an export
  made = rows(random, count)
  body = seed.even? ? JSON.generate(made) : page(made)
  [200, { "Content-Type" => seed.even? ? "application/json" : "text/html" }, [body]]
}
