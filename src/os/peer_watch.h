// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::os {

// Tells whether processes of this machine, not children of ours, are still alive.
class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(PeerWatch&& other) noexcept = default;
  PeerWatch& operator=(PeerWatch&&) = delete;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  // False when there is no such process (any more).
  bool add(int pid);

  // The position, in the order of add(), of a process that has ended.
  std::optional<int> find_ended() const;

 private:
  std::vector<int> descriptors_;
};

// Processes that tell the same text see each other's process numbers and shared memory: boot,
// process namespace and /dev/shm are the same.
std::string machine_identity();

int process_id();

}  // namespace lockstep::os
