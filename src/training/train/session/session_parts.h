// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cluster/placement.h"
#include "common/contract/run_directory.h"
#include "lockstep/session.h"
#include "training/train/event_writer.h"
#include "training/train/options/flags.h"
#include "training/train/session/stop_request.h"

namespace lockstep {

// The data of a Session. The code of this module calls it train::SessionParts.
struct Session::Parts {
  train::Flags flags;
  cluster::Placement placement;
  train::StopRequest* stop = nullptr;  // owned by run(); null in tests
  std::unique_ptr<Communicator> owned_communicator;
  int replicas = 1;                // in this process, including this one
  bool queried_recompute = false;  // the program queried --recompute
  bool asked_precision = false;    // the program queried --precision
  bool asked_jpeg = false;         // the program queried --jpeg
  bool has_fitted = false;         // Trainer::fit was called
  Communicator* communicator = nullptr;
  torch::Device device = torch::kCPU;
  std::filesystem::path data_dir;
  contract::RunDirectory run_dir = contract::RunDirectory("");
  std::optional<train::EventWriter> events;
  std::optional<int> terminal_columns;  // of the terminal that shows the output; absent: none
  bool is_terminal_ours = false;        // false: the agent writes to the terminal
  std::optional<double> command_time;   // seconds since the epoch

  // The value of -s, or the default for the number of workers.
  std::string strategy() const;

  // The signal that requested the end of this run, if one was received.
  std::optional<int> find_stop_signal() const;

  // Seconds since the start of the command `lockstep run`, if known.
  std::optional<double> seconds_since_command() const;

  void report(const std::string& kind,
              std::vector<std::pair<std::string, contract::Event::Value>> fields);
};

// Access to the data of a Session for this module, so that the public header names none of its
// types.
struct SessionAccess {
  using Parts = Session::Parts;

  static Session open(std::unique_ptr<Parts> parts) { return Session(std::move(parts)); }

  // A Session is a handle: its data can change while the Session itself is const.
  static Parts& parts(const Session& session) { return *session.parts_; }
};

namespace train {

using SessionParts = SessionAccess::Parts;

// Reports that --verify-strategies was given to a program that does not support it.
[[noreturn]] void throw_not_verified();

}  // namespace train
}  // namespace lockstep
