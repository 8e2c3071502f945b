// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace lockstep::agent {

// Where Horovod's workers meet when Gloo carries their messages: an HTTP server for keys and values
// at HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT, in place of the one that horovodrun has.
//
// Workers put their addresses there, ask for those of the others until they come (404 until then),
// and delete their own when all are connected. It has one thread, which sleeps while nobody asks,
// and keeps at most 64 MiB. Whoever reaches the port may read and write, as is Horovod's way: it
// holds addresses, and lets nobody in anywhere else. One thread calls.
class HorovodStore {
 public:
  HorovodStore();
  HorovodStore(const HorovodStore&) = delete;
  HorovodStore& operator=(const HorovodStore&) = delete;
  ~HorovodStore();

  // Serves at this address only; port 0 means one that the kernel chooses. False when the port is
  // not to be had. Horovod's workers know IPv4 only.
  bool start(const std::string& address, int port);

  // Ends the connections that there are, and the thread. Harmless when it does not run.
  void stop();

  // Forgets all values: for the next attempt, whose workers must not find those of the last.
  void clear();

  // 0 when it does not run.
  int port() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::agent
