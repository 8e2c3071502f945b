// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/fd.h"

// TCP without waiting, for trying who reaches whom: numeric addresses only, and no call blocks.
namespace lockstep::os {

// A socket that listens on all addresses of this machine, IPv4 and IPv6.
struct Listener {
  Fd socket;
  int port = 0;  // one that the kernel chose
};

// A connection is offered once its first bytes are there: whoever connects and says nothing is kept
// by the kernel for some seconds. Throws an Error (69) when the machine has no port left.
Listener listen_everywhere();

// The next connection that waits.
std::optional<Fd> find_connection(const Fd& listener);

// A connection under way: an error of the system, or a socket that becomes writable when it is
// decided, see connect_fault().
struct Connecting {
  Fd socket;
  int fault = 0;  // an errno
};

struct Route {
  std::string from;  // an address of this machine; empty: the kernel's choice
  std::string to;
  int port = 0;
};

Connecting start_connect(const Route& route);

// Why a connection could not be made, as errno; 0 when it is made.
int connect_fault(const Fd& socket);

// Whether all of `bytes` went out at once; a few of them always do on a fresh connection.
bool send_at_once(const Fd& socket, std::span<const uint8_t> bytes);

// Fills `room` from the front. How many bytes have come, 0 when none waits; nothing when the other
// side has closed or the connection is broken.
std::optional<size_t> receive_some(const Fd& socket, std::span<uint8_t> room);

// Descriptors of which some become ready: one descriptor for them all, so that a loop around many
// such sets watches one each. A descriptor that is closed leaves by itself.
class ReadySet {
 public:
  ReadySet();

  enum class For { Read, Write };

  // `token` is what ready() gives back.
  void add(const Fd& descriptor, For purpose, uint64_t token);
  void change(const Fd& descriptor, For purpose, uint64_t token);

  // Readable while one of them is ready.
  int fd() const { return set_.number(); }

  // The tokens of some that are ready now, an end or an error included; never waits.
  std::vector<uint64_t> ready() const;

 private:
  void control(int verb, const Fd& descriptor, For purpose, uint64_t token);

  Fd set_;
};

}  // namespace lockstep::os
