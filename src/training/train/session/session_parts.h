// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "common/cluster/place.h"
#include "common/contract/run_directory.h"
#include "lockstep/session.h"
#include "training/train/event_writer.h"
#include "training/train/options/flags.h"
#include "training/train/session/stop_request.h"

namespace lockstep::train {

// The data of a Session.
struct SessionParts {
  Flags flags;
  cluster::Placement placement;
  StopRequest* stop = nullptr;  // owned by run(); null in tests
  std::unique_ptr<Communicator> owned_communicator;
  int replicas = 1;              // in this process, including this one
  bool asked_recompute = false;  // the program queried --recompute
  bool asked_precision = false;  // the program queried --precision
  bool has_fitted = false;       // Trainer::fit was called
  Communicator* communicator = nullptr;
  torch::Device device = torch::kCPU;
  std::filesystem::path data_dir;
  contract::RunDirectory run_dir = contract::RunDirectory("");
  std::optional<EventWriter> events;
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

// Reports that --verify-strategies was given to a program that does not support it.
[[noreturn]] void throw_not_verified();

}  // namespace lockstep::train
