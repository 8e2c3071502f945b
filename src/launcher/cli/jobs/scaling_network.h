// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "launcher/report/network_model.h"
#include "launcher/report/scaling.h"

namespace lockstep::cli {

// The options of lockstep scaling for a prediction from one GPU, as on the command line.
struct NetworkOptions {
  std::optional<std::string> network = {};
  std::optional<std::string> intra_node = {};
  std::optional<std::string> gpus_per_node = {};
  std::optional<std::string> latency = {};
  std::optional<std::string> link_efficiency = {};
  std::optional<std::string> overlap = {};
  std::optional<std::string> bucket_mb = {};
  std::optional<std::string> zero_stage = {};
  std::optional<std::string> jitter = {};
  std::optional<std::string> step_time = {};
  std::optional<std::string> batch = {};
  std::optional<std::string> parameters = {};
  std::optional<std::string> gradient_bytes = {};
};

void add_network_options(CLI::App& command, NetworkOptions& options);

// The first of these options that is given, --network excluded: "--latency".
std::optional<std::string> find_network_option(const NetworkOptions& options);

// Predicts `sizes`; if there are none, 8, 64 and 512 GPUs. `run` is the measured run, unless the
// options contain the measurement. Throws an Error (64) for an option that cannot be understood, a
// measurement that is missing, or a run that is not of one worker.
report::NetworkPrediction predict_from_one_gpu(const NetworkOptions& options,
                                               const std::optional<report::RunMeasure>& run,
                                               std::span<const report::PredictedSize> sizes);

}  // namespace lockstep::cli
