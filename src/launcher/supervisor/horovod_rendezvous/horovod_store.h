// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace lockstep::supervisor {

// The rendezvous server for Horovod with Gloo: an HTTP key-value store at
// HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT, in place of the one in horovodrun.
//
// Workers PUT their addresses, GET those of the others until they exist (404 before), and DELETE
// their own when all are connected. The server has one thread, which sleeps between requests, and
// stores at most 64 MiB. As in Horovod, every process that reaches the port can read and write; the
// store contains only addresses. The public functions must be called from one thread.
class HorovodStore {
 public:
  HorovodStore();
  HorovodStore(const HorovodStore&) = delete;
  HorovodStore& operator=(const HorovodStore&) = delete;
  ~HorovodStore();

  // Listens on this address only; port 0 selects a free port. False if the port is unavailable.
  // Horovod supports IPv4 only.
  bool start(const std::string& address, int port);

  // Closes all connections and ends the thread. Has no effect if the server does not run.
  void stop();

  // 0 if the server does not run.
  int port() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::supervisor
