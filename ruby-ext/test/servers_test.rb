# SPDX-License-Identifier: MIT
# frozen_string_literal: true

require_relative "test_helper"
require "fileutils"
require "net/http"
require "socket"
require "tmpdir"

# The real servers, each with an application that leaves much free.
class ServersTest < Minitest::Test
  include InAnotherProcess
  parallelize_me!

  MUCH = 25_000_000

  # Paths: /burst leaves memory free and has it collected; while it works on for half a second, how many trims there were; /stats
  # of the worker that answers.
  APP = <<~RUBY
    #{LEAVE_FREE}
    app = lambda do |env|
      body = case env["PATH_INFO"]
             when "/burst"
               $live = leave_free
               GC.start
               sleep 0.5
               Arenascope.trim_stats.count
             when "/raise" then raise "as asked"
             else "\#{Process.pid} \#{Arenascope.trim_stats.bytes}"
             end
      [200, { "content-type" => "text/plain" }, [body.to_s]]
    end
  RUBY

  def test_puma_with_the_middleware_trims_between_requests
    serve("puma", config_ru: "use Arenascope::Rack, min_interval: 0.5\nrun app") { |port| assert_trims_between_requests(port) }
  end

  def test_puma_with_workers_and_the_plugin
    # The thread inspects once in a minute: what trims is the hook for idle times.
    config = <<~RUBY
      require "arenascope"
      Arenascope.trim_after_gc!(min_interval: 60)
      plugin :arenascope
      workers 2
      preload_app!
    RUBY
    serve("puma", config_ru: "run app", puma: config) do |port|
      skip "Puma has such a hook from 5.0 on" if Gem::Specification.find_by_name("puma").version < Gem::Version.new("5")
      2.times { get(port, "/burst") }
      assert(until_it_is { trimmed?(port) })
    end
  end

  # The threads are those that the application's start leaves in the process that the workers are forked from.
  def test_puma_does_not_warn_of_the_thread
    app = "Arenascope.trim_after_gc!\nrun app"
    serve("puma", config_ru: app, puma: "workers 2\npreload_app!") do |port, log|
      get(port, "/stats")
      refute_match(/Thread\(s\) started/, File.read(log))
    end
  end

  def test_each_worker_of_puma_trims
    serve("puma", config_ru: "use Arenascope::Rack\nrun app", puma: "workers 2\npreload_app!") do |port|
      seen = {}
      assert(until_it_is do
        get(port, "/burst") if seen.values.count { |bytes| bytes.to_i > MUCH } < 2
        4.times { seen.store(*get(port, "/stats").split) }
        seen.size == 2 && seen.values.all? { |bytes| bytes.to_i > MUCH }
      end, seen.inspect)
    end
  end

  # Neither of Puma's nor of Rack 3's hooks: the end of the body is the end of the request.
  def test_webrick
    needs("webrick", "rack")
    code = <<~RUBY
      require "arenascope/rack"
      require "rack"
      require(Rack.release < "3" ? "rack/handler/webrick" : "rackup/handler/webrick")
      #{APP}
      handler = defined?(Rackup) ? Rackup::Handler::WEBrick : Rack::Handler::WEBrick
      handler.run(Arenascope::Rack.new(app, min_interval: 0.5), Host: "127.0.0.1", Port: PORT, AccessLog: [])
    RUBY
    serve(nil, code: code) { |port| assert_trims_between_requests(port) }
  end

  def test_rails
    needs("railties", "puma")
    config_ru = <<~RUBY
      require "action_controller/railtie"
      require "arenascope/railtie"
      class Shop < Rails::Application
        config.eager_load = false
        config.hosts = nil
        config.logger = Logger.new($stdout)
        config.secret_key_base = "x" * 64
        config.arenascope.min_interval = 0.5
        config.arenascope.dump_on_signal = "URG"
      end
      $app = app
      Shop.initialize!
      Shop.routes.draw { match "*all", to: $app, via: :get }
      run Shop
    RUBY
    serve("puma", config_ru: config_ru) do |port, log, pid|
      assert_trims_between_requests(port)
      Process.kill("URG", pid)
      assert(until_it_is { Dir[File.join(File.dirname(log), "*.1.dump")].any? })
    end
  end

  def test_sidekiq
    needs("sidekiq")
    skip "redis-server is not installed" unless system("redis-server --version", out: File::NULL)
    Dir.mktmpdir do |dir|
      jobs = File.join(dir, "jobs.rb")
      File.write(jobs, <<~RUBY)
        require "sidekiq"
        require "arenascope/sidekiq"
        #{LEAVE_FREE}
        class Burst
          include Sidekiq::Worker
          def perform
            $live = leave_free
            GC.start
            sleep 0.5
            File.write("burst", Arenascope.trim_stats.count)
          end
        end
        class Report
          include Sidekiq::Worker
          def perform
            File.write("new", Arenascope.trim_stats.bytes)
            File.rename("new", "report")
          end
        end
      RUBY
      port = free_port
      env = { "REDIS_URL" => "redis://127.0.0.1:#{port}/0" }
      running(env, dir, "redis-server", "--port", port.to_s, "--save", "", "--bind", "127.0.0.1") do
        until_it_is { connects?(port) }
        running(env, dir, RbConfig.ruby, "-S", "sidekiq", "-r", jobs, "-c", "2") do |_, log|
          push = lambda do |job|
            system(env.merge(ENVIRONMENT), RbConfig.ruby, "-r#{jobs}", "-e", "#{job}.perform_async", chdir: dir, err: File::NULL)
          end
          push.call("Burst")
          read = ->(name) { File.exist?(File.join(dir, name)) && File.read(File.join(dir, name)).to_i }
          assert(until_it_is { read.call("burst") }, File.read(log))
          assert_equal 0, read.call("burst"), "a trim while the job was at work"
          sleep 0.6
          push.call("Report")
          assert(until_it_is { read.call("report") }, File.read(log))
          assert_operator read.call("report"), :>, MUCH
        end
      end
    end
  end

  private

  ENVIRONMENT = { "RUBYOPT" => nil, "RUBYLIB" => LIBS.join(":"), "RAILS_ENV" => "production" }.freeze
  private_constant :ENVIRONMENT

  # Whether they, and what they need in turn, are there for this Ruby.
  def needs(*gems)
    gems.each { |name| skip "#{name} is not installed" unless system(RbConfig.ruby, "-e", "gem '#{name}'", err: File::NULL) }
  end

  # With an interval of 0.5 s, for then a trim waits 4 s for a request, which takes half a second, and more on a busy machine.
  def assert_trims_between_requests(port)
    assert_equal "500", Net::HTTP.get_response("127.0.0.1", "/raise", port).code # it is not at work for ever
    assert_equal "0", get(port, "/burst"), "a trim while the request was at work"
    assert(until_it_is { trimmed?(port) })
  end

  def trimmed?(port)
    get(port, "/stats").split.last.to_i > MUCH
  end

  # Runs the server and yields its port, its log and its pid.
  def serve(server, config_ru: nil, puma: "", code: nil)
    needs(*server)
    Dir.mktmpdir do |dir|
      port = free_port
      File.write(File.join(dir, "config.ru"), "require 'arenascope/rack'\n#{APP}\n#{config_ru}")
      File.write(File.join(dir, "puma.rb"), "bind 'tcp://127.0.0.1:#{port}'\nthreads 2, 2\n#{puma}")
      command = code ? ["-e", code.sub("PORT", port.to_s)] : ["-S", "puma", "-C", "puma.rb", "config.ru"]
      running({}, dir, RbConfig.ruby, *command) do |pid, log|
        assert until_it_is { connects?(port) }, File.read(log)
        yield port, log, pid
      end
    end
  end

  def running(env, dir, *command)
    log = File.join(dir, "#{File.basename(command.first)}.log")
    pid = spawn(env.merge(ENVIRONMENT), *command, chdir: dir, %i[out err] => log, in: File::NULL, pgroup: true)
    yield pid, log
  ensure
    if pid
      Process.kill("KILL", -pid)
      Process.wait(pid)
    end
  end

  def until_it_is
    400.times do
      done = yield
      return done if done

      sleep 0.05
    end
    false
  end

  def free_port
    TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
  end

  def connects?(port)
    TCPSocket.new("127.0.0.1", port).close
    true
  rescue SystemCallError
    false
  end

  def get(port, path)
    Net::HTTP.get("127.0.0.1", path, port)
  end
end
