// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::os {

// Identifies a process that is not a child of this process, so that a later process with the same
// number is not mistaken for it.
struct ProcessIdentity {
  std::string machine;  // machine_identity() of the machine on which the number is valid
  int pid = 0;
  int64_t start_time = 0;  // clock ticks after boot

  bool operator==(const ProcessIdentity&) const = default;
};

// This process.
ProcessIdentity own_identity();

// Whether its process number is valid on this machine.
bool is_of_this_machine(const ProcessIdentity& process);

// Whether it runs on this machine. A zombie does not count.
bool is_alive(const ProcessIdentity& process);

// Signals this process and no other; false if it is not alive here or belongs to another user.
bool send_signal(const ProcessIdentity& process, int signal);

}  // namespace lockstep::os
