// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::os {

// A process that is no child of ours, known so well that another one, which later gets its number,
// is not taken for it.
struct ProcessIdentity {
  std::string machine;  // machine_identity() of the place where the number means something
  int pid = 0;
  int64_t start_time = 0;  // clock ticks after the machine's start

  bool operator==(const ProcessIdentity&) const = default;
};

// This process.
ProcessIdentity own_identity();

// Whether its number means anything here.
bool is_of_this_machine(const ProcessIdentity& process);

// Whether it runs, on this machine. One that has ended and waits for its parent does not.
bool is_alive(const ProcessIdentity& process);

// Sends to this process and no other; false when it is not alive here, or belongs to somebody else.
bool send_signal(const ProcessIdentity& process, int signal);

}  // namespace lockstep::os
