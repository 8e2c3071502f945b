// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/os/fd.h"

// Non-blocking TCP for tests of which node reaches which. Accepts numeric addresses only.
namespace lockstep::os {

// A socket that listens on all IPv4 and IPv6 addresses of this machine.
struct Listener {
  Fd socket;
  int port = 0;  // chosen by the kernel
};

// A connection is accepted only after its first bytes have arrived; the kernel holds a silent
// connection back for some seconds. Throws an Error (69) if no port is left.
Listener listen_everywhere();

// The next pending connection.
std::optional<Fd> find_connection(const Fd& listener);

// A connection in progress: an error, or a socket that becomes writable when the result is known;
// see connect_fault().
struct Connecting {
  Fd socket;
  int fault = 0;  // errno
};

struct Route {
  std::string from;  // an address of this machine; empty: chosen by the kernel
  std::string to;
  int port = 0;
};

Connecting start_connect(const Route& route);

// The errno of a failed connection; 0 if it is established.
int connect_fault(const Fd& socket);

// Whether all `bytes` were sent at once. A few bytes always fit on a new connection.
bool send_at_once(const Fd& socket, std::span<const uint8_t> bytes);

// Fills `room` from the front. Returns the number of bytes, 0 if none is available, nothing if the
// other side has closed or the connection is broken.
std::optional<size_t> receive_some(const Fd& socket, std::span<uint8_t> room);

// A set of descriptors behind one descriptor, so that an event loop with many such sets watches one
// each. A closed descriptor leaves the set by itself.
class ReadySet {
 public:
  ReadySet();

  enum class For { Read, Write };

  // ready() returns `token`.
  void add(const Fd& descriptor, For purpose, uint64_t token);
  void change(const Fd& descriptor, For purpose, uint64_t token);

  // Readable while one of them is ready.
  int fd() const { return set_.number(); }

  // The tokens of descriptors that are ready, including end of file and errors; never blocks.
  std::vector<uint64_t> ready() const;

 private:
  void control(int verb, const Fd& descriptor, For purpose, uint64_t token);

  Fd set_;
};

}  // namespace lockstep::os
