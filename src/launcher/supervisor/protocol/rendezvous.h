// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/protocol/control.h"

// Rendezvous: how agents get the address of the leader and the keys of the run. In the environment
// (srun), on standard input (ssh), or in a file with mode 0600 (processes that were started
// manually or by another launcher). Never on a command line, which all users of a machine can read.
namespace lockstep::supervisor {

// The information that an agent needs to join.
struct RendezvousPoint {
  std::vector<Endpoint> endpoints;  // addresses of the leader; all are tried
  ControlKeys keys;                 // without the secret key of the leader
  std::optional<int> node;          // node of the plan that the agent represents
  std::string directory;            // working directory; empty: unchanged
  os::Environment environment;      // variables of the user, for an agent over ssh

  bool operator==(const RendezvousPoint&) const = default;
};

std::string encode(const RendezvousPoint& point);
// Throws an Error (74) if encode() did not write the text.
RendezvousPoint decode_rendezvous_point(std::string_view text);

// All addresses of this machine with the port, loopback addresses last.
std::vector<Endpoint> own_endpoints(int port);

// The file of a rendezvous: in LOCKSTEP_MEETING_DIR, else in lockstep/ below XDG_STATE_HOME or
// ~/.local/state.
std::filesystem::path rendezvous_path(const plan::Rendezvous& rendezvous,
                                      const os::Environment& environment);

// Writes the file with mode 0600, and removes it in the destructor.
class RendezvousFile {
 public:
  RendezvousFile(std::filesystem::path file, const RendezvousPoint& point);
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;
  ~RendezvousFile();

 private:
  std::filesystem::path file_;
  std::string text_;
};

// Reads the file. Nothing if it does not exist, does not belong to this user, can be read by
// others, or has another format.
std::optional<RendezvousPoint> find_rendezvous_in(const std::filesystem::path& file);

}  // namespace lockstep::supervisor
