// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "cluster/place.h"
#include "contract/run_directory.h"
#include "lockstep/session.h"
#include "metrics/event_writer.h"
#include "train/flags.h"
#include "train/stop_request.h"

namespace lockstep::train {

// What a Session is made of.
struct SessionParts {
  Flags flags;
  cluster::Placement placement;
  StopRequest* stop = nullptr;  // run()'s; null in tests
  std::unique_ptr<Communicator> owned_communicator;
  int replicas = 1;              // of this process, this one among them
  bool asked_recompute = false;  // the program looked at --recompute
  bool asked_precision = false;  // and at --precision
  bool has_fitted = false;       // a Trainer trains, or has
  Communicator* communicator = nullptr;
  torch::Device device = torch::kCPU;
  std::filesystem::path data_dir;
  contract::RunDirectory run_dir = contract::RunDirectory("");
  std::optional<metrics::EventWriter> events;
  std::optional<int> terminal_columns;  // of the terminal that shows our output, if one does
  bool is_terminal_ours = false;        // false: the agent draws for us
  std::optional<double> command_time;   // seconds since the epoch

  // "ddp", or "single" for one worker that asked for nothing else.
  std::string strategy() const;

  // The signal that asks this run to end, if one has come.
  std::optional<int> find_stop_signal() const;

  // Seconds since the command was typed, if that is known.
  std::optional<double> seconds_since_command() const;

  void report(const std::string& kind,
              std::vector<std::pair<std::string, contract::Event::Value>> fields);
};

// --verify-strategies was given to a program that cannot.
[[noreturn]] void throw_not_verified();

// Seconds since the epoch.
double wall_time();

}  // namespace lockstep::train
