// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/http_server.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <httplib.h>
#include <string_view>
#include <thread>

#include "lockstep/error.h"

// httplib occupies one thread of its pool for each connection, also while a connection is kept
// alive and idle. There is no event loop. Every limit below follows from this: an /api/events
// stream holds its thread for as long as the page is open, and an idle connection holds one until
// the keep-alive timeout.
//
// Shutdown: ~HttpServer sets is_stopping, so that the streams end within kNewsPatience (or 50 ms if
// they pause), and stops the server, so that listen_after_bind() returns. Then ~Listener joins
// `thread`, its last member, before it destroys what the handlers refer to.
namespace lockstep::monitor {
namespace {

using std::chrono::milliseconds;

// Each open page occupies a thread with its /api/events connection. The pool is larger than
// kMaxListeners so that other requests are always served.
constexpr size_t kThreads = 32;
constexpr int kMaxListeners = 16;
// Minimum time between two events: a page sends several requests for each.
constexpr milliseconds kNewsPause(1000);
constexpr milliseconds kNewsPatience(500);

// All scripts and styles of the page are files of this server. The policy forbids everything else,
// so that a log line or a run name with HTML in it cannot load or run anything.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void write_plain(httplib::Response& response, int status, std::string_view sentence) {
  response.status = status;
  response.set_content(fmt::format("{}\n", sentence), "text/plain");
}

}  // namespace

struct HttpServer::Listener {
  Listener(Site& its_site, const Access& its_access) : site(its_site), access(its_access) {}

  void declare() {
    server.new_task_queue = [] {
      return new httplib::ThreadPool(kThreads);
    };
    // httplib sets SO_REUSEPORT by default, which would let a second server share the port instead
    // of failing.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server.set_payload_max_length(1 << 16);
    server.set_keep_alive_max_count(1000);
    server.set_keep_alive_timeout(1);
    server.set_default_headers({{"Content-Security-Policy", kPolicy},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cache-Control", "no-store"}});
    server.set_pre_routing_handler(
        [this](const auto& request, auto& response) { return admit(request, response); });
    server.Get("/api/events", [this](const auto&, auto& response) { tell_news(response); });
    server.Get(".*", [this](const auto& request, auto& response) { answer(request, response); });
    server.set_exception_handler([](const auto&, auto& response, const std::exception_ptr&) {
      write_plain(response, 500, "internal error: this is a bug in lockstep");
    });
  }

  // Runs before the routes, so no path, existing or not, is visible without the token.
  httplib::Server::HandlerResponse admit(const httplib::Request& request,
                                         httplib::Response& response) const {
    if (!access.admits(request.get_param_value("token"),
                       request.get_header_value("Cookie"),
                       request.get_header_value("Authorization"))) {
      write_plain(response,
                  403,
                  "access denied: the token is missing or wrong; open the address that lockstep "
                  "dashboard printed.");
      return httplib::Server::HandlerResponse::Handled;
    }
    if (request.method != "GET" && request.method != "HEAD") {
      write_plain(response, 405, "method not allowed: the dashboard is read-only.");
      return httplib::Server::HandlerResponse::Handled;
    }
    return httplib::Server::HandlerResponse::Unhandled;
  }

  // Only a page that was opened with the token in its address gets the cookie. Its scripts then
  // request without the token, so that it does not appear in their addresses.
  void answer(const httplib::Request& request, httplib::Response& response) {
    const Parameters parameters(request.params.begin(), request.params.end());
    const Answer answer = site.answer(request.path, parameters);
    response.status = answer.status;
    if (request.path == "/" && request.has_param("token")) {
      response.set_header("Set-Cookie", access.cookie());
    }
    response.set_content(answer.body, answer.type);
  }

  // The lambda runs again and again on the thread of the connection until it returns false. The
  // counter is decreased by the release callback, which httplib calls when the response is
  // destroyed, in every case: client gone, server stopped, write failed.
  void tell_news(httplib::Response& response) {
    if (++listeners > kMaxListeners) {
      --listeners;
      write_plain(response, 503, "too many open pages receive updates: close some of them.");
      return;
    }
    // Sends the first line immediately, so that the browser reports the connection as open. A
    // comment line is sent when nothing has changed, so that a closed connection is detected.
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, seen = uint64_t{0}, is_first = true](size_t, httplib::DataSink& sink) mutable {
          const uint64_t now = is_first ? site.version() : site.wait_for_news(seen, kNewsPatience);
          const std::string line =
              is_first || now > seen ? fmt::format("data: {}\n\n", now) : ": still here\n\n";
          const bool is_news = !is_first && now > seen;
          seen = now;
          is_first = false;
          if (is_stopping || !sink.write(line.data(), line.size())) {
            return false;
          }
          for (milliseconds slept(0); is_news && slept < kNewsPause && !is_stopping;
               slept += milliseconds(50)) {
            std::this_thread::sleep_for(milliseconds(50));
          }
          return true;
        },
        [this](bool) { --listeners; });
  }

  Site& site;
  const Access& access;
  httplib::Server server;
  int port = 0;
  std::atomic<int> listeners = 0;
  std::atomic<bool> is_stopping = false;
  std::jthread thread;
};

bool has_http_server() {
  return true;
}

HttpServer::HttpServer(Site& site, const Access& access, const Options& options)
    : listener_(std::make_unique<Listener>(site, access)) {
  listener_->declare();
  httplib::Server& server = listener_->server;
  if (options.port == 0) {
    listener_->port = server.bind_to_any_port(options.address);
  } else if (server.bind_to_port(options.address, options.port)) {
    listener_->port = options.port;
  }
  if (listener_->port <= 0) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot listen on {}:{}", options.address, options.port))
        .fact("reason", "the port is in use or privileged, or the address is not of this host")
        .hint("use --port 0 for a free port, or --bind 127.0.0.1, which exists on every host");
  }
  // The port is bound above, in the calling thread, so that a failure is an exception of the
  // constructor. stop() has an effect only on a server that runs; the destructor relies on the loop
  // below.
  listener_->thread = std::jthread([&server] { server.listen_after_bind(); });
  while (!server.is_running()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

HttpServer::~HttpServer() {
  listener_->is_stopping = true;
  listener_->server.stop();
}

int HttpServer::port() const {
  return listener_->port;
}

}  // namespace lockstep::monitor
