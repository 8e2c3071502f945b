// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/control.h"
#include "os/environment.h"
#include "plan/plan.h"

// How agents find their leader, and how both come by the keys: through the environment (srun), on
// standard input (ssh), or in a file that only the user may read (processes that somebody else has
// started). Never on a command line.
namespace lockstep::agent {

// What an agent must know to join.
struct MeetingPoint {
  std::vector<Endpoint> endpoints;  // where the leader listens; all are tried
  ControlKeys keys;                 // without the leader's secret
  std::optional<int> node;          // which node of the plan the agent is
  std::string directory;            // where to work; empty: where it was started
  os::Environment environment;      // the user's, for an agent over ssh

  bool operator==(const MeetingPoint&) const = default;
};

std::string encode(const MeetingPoint& point);
// Throws an Error (74) when the text was not written by encode().
MeetingPoint decode_meeting_point(std::string_view text);

// Every address of this machine with the port; those on which others may reach it come first.
std::vector<Endpoint> own_endpoints(int port);

// The file of a meeting: below LOCKSTEP_MEETING_DIR, else XDG_STATE_HOME, else ~/.local/state.
std::filesystem::path meeting_file(const plan::Meeting& meeting,
                                   const os::Environment& environment);

// Writes it, readable for this user only; removes it at the end.
class PostedMeeting {
 public:
  PostedMeeting(std::filesystem::path file, const MeetingPoint& point);
  PostedMeeting(const PostedMeeting&) = delete;
  PostedMeeting& operator=(const PostedMeeting&) = delete;
  ~PostedMeeting();

 private:
  std::filesystem::path file_;
  std::string text_;
};

// What the file says now; nothing when it is not there, is not for this user, or is not ours.
std::optional<MeetingPoint> find_posted(const std::filesystem::path& file);

}  // namespace lockstep::agent
