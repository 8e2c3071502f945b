// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/http_server.h"
#include "lockstep/error.h"

// Stubs for a build without cpp-httplib.
namespace lockstep::monitor {

struct HttpServer::Listener {};

bool has_http_server() {
  return false;
}

HttpServer::HttpServer(Site&, const Access&, const Options&) {
  throw Error(ExitCode::Unavailable, "cannot serve a dashboard: built without cpp-httplib")
      .hint("install libcpp-httplib-dev and rebuild lockstep, or use lockstep watch");
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return 0;
}

}  // namespace lockstep::monitor
