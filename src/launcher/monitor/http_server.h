// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "launcher/monitor/access.h"
#include "launcher/monitor/site.h"

namespace lockstep::monitor {

// Whether lockstep was built with cpp-httplib.
bool has_http_server();

// Serves a site on a TCP port to clients that have the token, until the object is destroyed.
// /api/events sends a server-sent event for every change. `site` and `access` must outlive it.
class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    int port = 0;  // 0: any free port
  };

  // Throws an Error (69) if it cannot listen on the address, or if lockstep was built without
  // cpp-httplib.
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
