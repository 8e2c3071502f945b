// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::os {

// Watches processes of this machine that are not children of this process.
class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(PeerWatch&& other) noexcept = default;
  PeerWatch& operator=(PeerWatch&&) = delete;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  // False if the process does not exist or no longer exists.
  bool add(int pid);

  // The index, in the order of add(), of a process that has ended.
  std::optional<int> find_ended() const;

 private:
  std::vector<int> descriptors_;
};

// Processes with the same text see each other's process numbers and shared memory: they have the
// same boot, process namespace and /dev/shm.
std::string machine_identity();

int process_id();

}  // namespace lockstep::os
