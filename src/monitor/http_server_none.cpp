// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"
#include "monitor/http_server.h"

// A build without cpp-httplib.
namespace lockstep::monitor {

struct HttpServer::Listener {};

bool has_http_server() {
  return false;
}

HttpServer::HttpServer(Site&, const Access&, const Options&) {
  throw Error(ExitCode::Unavailable, "cannot serve a dashboard: built without cpp-httplib")
      .hint("a lockstep built with libcpp-httplib-dev; lockstep status and logs need nothing");
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return 0;
}

}  // namespace lockstep::monitor
