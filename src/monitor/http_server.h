// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "monitor/access.h"
#include "monitor/site.h"

namespace lockstep::monitor {

// Whether this lockstep was built with cpp-httplib.
bool has_http_server();

// A site on a TCP port, for those who know the token, until the end of its life. /api/events sends
// a line for every change, as server-sent events. `site` and `access` must outlive it.
class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    int port = 0;  // 0: a free one
  };

  // Throws an Error (69) when it cannot listen there, or was built without.
  HttpServer(Site& site, const Access& access, const Options& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  struct Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace lockstep::monitor
