# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# A Rails application in one file, without a database: /SEED is a page of rows that depend on the seed alone, through
# routing, the middleware, a controller, a layout and a template for each row; every other one is JSON.

require "logger"
require "action_controller/railtie"
require "action_view/railtie"
require "action_view/testing/resolvers"

WORDS = %w[arena bin chunk fastbin heap page pin resident tcache top trim].freeze

Row = Struct.new(:id, :title, :body, :tags, :score, :made)

TEMPLATES = {
  "layouts/application.html.erb" => <<~ERB,
    <!doctype html>
    <html><head><title><%= content_for(:title) || "Rows" %></title><%= csrf_meta_tags %></head>
    <body><nav><%= link_to "first", "/1", class: "nav" %></nav><%= yield %></body></html>
  ERB
  "pages/show.html.erb" => <<~ERB,
    <% content_for :title, "Rows of \#{@seed}" %>
    <h1><%= pluralize(@rows.size, "row") %></h1>
    <table><%= render partial: "pages/row", collection: @rows %></table>
  ERB
  "pages/_row.html.erb" => <<~ERB
    <%= tag.tr id: "row-\#{row.id}", class: ["row", cycle("odd", "even")], data: { score: row.score } do %>
      <td><%= link_to row.title, "/\#{row.id}", title: row.title %></td>
      <td><%= truncate row.body, length: 120 %></td>
      <td><%= safe_join row.tags.map { |name| content_tag(:b, name) }, ", " %></td>
      <td><%= number_with_delimiter (row.score * 1_000_000).to_i %></td><td><%= l row.made, format: :short %></td>
    <% end %>
  ERB
}.freeze

# The application.
class Application < Rails::Application
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.secret_key_base = "of no use to anyone" * 4
  config.hosts.clear
  config.logger = Logger.new(File::NULL)
  config.session_store :cookie_store, key: "session"
end

# Its only controller.
class PagesController < ActionController::Base
  append_view_path ActionView::FixtureResolver.new(TEMPLATES)
  layout "application"

  def show
    @seed = params[:seed].to_i
    random = Random.new(@seed)
    count = 10 * (2**random.rand(0.0..5.0)).to_i
    count *= 10 if (@seed % 100).zero? # an export
    @rows = rows(random, count)
    @seed.even? ? render(json: @rows) : render
  end

  private

  def rows(random, count)
    Array.new(count) do |id|
      words = Array.new(12) { WORDS.sample(random: random) }
      Row.new(id, words.join(" "), words.join(", ") * 4, words.uniq, random.rand, Time.at(random.rand(2**30)).utc)
    end
  end
end

Application.initialize!
Application.routes.draw { get "/:seed", to: "pages#show" }

run Application
