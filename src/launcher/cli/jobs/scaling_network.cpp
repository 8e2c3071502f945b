// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/scaling_network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/contract/strategy_kind.h"
#include "launcher/cli/jobs/quantity.h"
#include "lockstep/error.h"

// Every input of the prediction is a row of one table, from which options, error messages and the
// list of assumptions are made, so that no input can be missing in that list.
namespace lockstep::cli {
namespace {

using Text = std::optional<std::string> NetworkOptions::*;

constexpr double kBits = 8;
constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kHuge = 1e18;

constexpr std::array kRateUnits = {Unit{"Gb/s", kGiga / kBits},
                                   Unit{"GB/s", kGiga},
                                   Unit{"Tb/s", kTera / kBits},
                                   Unit{"TB/s", kTera},
                                   Unit{"Mb/s", kMega / kBits},
                                   Unit{"MB/s", kMega}};
constexpr std::array kTimeUnits = {Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}};
constexpr std::array kSizeUnits = {Unit{"MB", kMega}, Unit{"GB", kGiga}, Unit{"B", 1}};
constexpr std::array kCountUnits = {
    Unit{"", 1}, Unit{"K", 1e3}, Unit{"M", kMega}, Unit{"B", kGiga}};
constexpr std::array kNoUnit = {Unit{"", 1}};

struct Kind {
  const char* type;  // in --help
  std::span<const Unit> units;
  double minimum;
  double maximum;
  bool is_whole;
  const char* expected;
  const char* example;
};

// clang-format off
const Kind kRate = {"RATE", kRateUnits, 1, kHuge, false,
                    "bits in Mb/s, Gb/s, Tb/s; bytes in MB/s, GB/s, TB/s", "400Gb/s"};
const Kind kLatency = {"TIME", kTimeUnits, 0, 1, false,
                       "a time of at most 1 s in s, ms or us", "5us"};
const Kind kStepTime = {"TIME", kTimeUnits, 1e-9, 1e6, false, "a time in s, ms or us", "105ms"};
const Kind kSize = {"SIZE", kSizeUnits, 1, kHuge, false, "a size in B, MB or GB", "500MB"};
const Kind kCount = {"N", kCountUnits, 1, kHuge, false,
                     "a number, also with K, M or B (1e9)", "124M"};
const Kind kWhole = {"N", kNoUnit, 1, kGiga, true, "a whole number, at least 1", "64"};
const Kind kGpus = {"N", kNoUnit, 1, 1000, true, "a whole number from 1 to 1000", "8"};
const Kind kStage = {"N", kNoUnit, 0, 3, true, "0, 1, 2 or 3", "2"};
const Kind kMegabytes = {"MB", kNoUnit, 0.001, kMega, false, "a number of MB", "25"};
const Kind kShare = {"SHARE", kNoUnit, 0, 1, false, "a number from 0 to 1", "0.5"};
const Kind kPositiveShare = {"SHARE", kNoUnit, 0.01, 1, false, "a number from 0.01 to 1", "0.8"};
// clang-format on

struct Input {
  Text text;
  const char* flag;
  const Kind& kind;
  const char* fallback;  // default; empty: none
  const char* name;      // in the list of assumptions
  const char* help;
};

const std::vector<Input>& inputs() {
  using O = NetworkOptions;
  // clang-format off
  static const std::vector<Input> kInputs = {
      {&O::network, "--network", kRate, "", "bandwidth of a node",
       "Bandwidth of a node to the other nodes in one direction, in Gb/s (bits) or GB/s (bytes)"},
      {&O::intra_node, "--intra-node", kRate, "450GB/s", "bandwidth of a GPU in its node",
       "Bandwidth of a GPU to the other GPUs of its node in one direction"},
      {&O::gpus_per_node, "--gpus-per-node", kGpus, "8", "GPUs of a node", "GPUs of a node"},
      {&O::latency, "--latency", kLatency, "5us", "latency of a message", "Latency of a message"},
      {&O::link_efficiency, "--link-efficiency", kPositiveShare, "0.8",
       "reached share of bandwidths",
       "Share of these bandwidths that collectives reach"},
      {&O::overlap, "--overlap", kShare, "0.67", "backward as a share of a step",
       "Share of a step in which gradients can be exchanged: backward of the last micro-batch"},
      {&O::bucket_mb, "--bucket-mb", kMegabytes, "25", "size of a bucket, MB",
       "Size of a bucket of gradients"},
      {&O::zero_stage, "--zero-stage", kStage, "0", "ZeRO stage", "ZeRO stage; 0 is all-reduce"},
      {&O::jitter, "--jitter", kShare, "0", "jitter of a GPU",
       "Standard deviation of the step time of a GPU relative to its mean"},
      {&O::step_time, "--step-time", kStepTime, "", "step time of one GPU",
       "Step time of one GPU instead of that of RUN"},
      {&O::batch, "--batch", kWhole, "", "batch per GPU",
       "Samples of a step on one GPU instead of those of RUN"},
      {&O::parameters, "--parameters", kCount, "", "parameters of 4 bytes",
       "Parameters of the model (124M), 4 bytes each, instead of those of RUN"},
      {&O::gradient_bytes, "--gradient-bytes", kSize, "", "size of all gradients",
       "Size of all gradients (500MB) instead of that of RUN"},
  };
  // clang-format on
  return kInputs;
}

const Input& input_of(Text text) {
  return *std::ranges::find(inputs(), text, &Input::text);
}

double parse(const Input& input, const std::string& text) {
  const auto value = find_quantity(text, input.kind.units);
  const bool is_valid = value && *value >= input.kind.minimum && *value <= input.kind.maximum &&
                        (!input.kind.is_whole || *value == std::floor(*value));
  if (!is_valid) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for {}", text, input.flag))
        .fact("expected", input.kind.expected)
        .hint(fmt::format("{} {}", input.flag, input.kind.example));
  }
  return *value;
}

Error no_measurement(const std::string& missing, const char* label, const std::string& hint) {
  Error error(ExitCode::Usage, "cannot predict from one GPU: " + missing);
  error.fact("expected", label);
  error.hint(hint);
  return error;
}

// Reads inputs and records each of them as an assumption.
class Reader {
 public:
  Reader(const NetworkOptions& options, const std::optional<report::RunMeasure>& run)
      : options_(options), run_(run) {}

  bool has(Text text) const { return (options_.*text).has_value(); }

  // The option, or its default.
  double take(Text text) {
    const Input& input = input_of(text);
    const std::string value = (options_.*text).value_or(input.fallback);
    record(input, value, has(text) ? input.flag : "default");
    return parse(input, value);
  }

  // The option, or a number of the run; 0 if neither is known.
  double take_or(Text text, double measured, const std::string& printed) {
    if (has(text)) {
      return take(text);
    }
    if (measured > 0) {
      record(input_of(text), printed, "run " + run_->name);
    }
    return measured;
  }

  std::vector<report::Assumption> assumptions() && { return std::move(assumptions_); }

 private:
  void record(const Input& input, const std::string& value, const std::string& source) {
    assumptions_.push_back({.name = input.name, .value = value, .source = source});
  }

  const NetworkOptions& options_;
  const std::optional<report::RunMeasure>& run_;
  std::vector<report::Assumption> assumptions_ = {};
};

void check_run(const report::RunMeasure& run, const NetworkOptions& options) {
  if (!run.objection.empty()) {
    throw Error(ExitCode::Usage, fmt::format("cannot measure the run '{}'", run.name))
        .fact("reason", run.objection)
        .hint("use a run of at least ten seconds whose program reports steps");
  }
  if (run.workers != 1) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot predict from the run '{}' and a network", run.name))
        .fact("workers", fmt::format("{}; expected 1, without communication", run.workers))
        .hint("drop --network and give runs of at least three sizes");
  }
  if (contract::has_zero_stage(run.strategy) && !options.zero_stage) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot predict from the run '{}': unknown ZeRO stage", run.name))
        .fact("strategy", fmt::format("{}, whose stage the events do not contain", run.strategy))
        .hint("--zero-stage 2");
  }
}

report::OneGpu read_measurement(Reader& reader, const std::optional<report::RunMeasure>& run) {
  report::OneGpu one;
  const double seconds = run ? run->step_seconds : 0;
  one.step_seconds =
      reader.take_or(&NetworkOptions::step_time, seconds, fmt::format("{:.4g}s", seconds));
  if (one.step_seconds == 0) {
    throw no_measurement("no measurement given",
                         "a run with one worker, or --step-time",
                         "lockstep scaling --predict --network 400Gb/s RUN");
  }
  const int64_t batch = run ? run->global_batch : 0;
  one.batch =
      reader.take_or(&NetworkOptions::batch, static_cast<double>(batch), std::to_string(batch));
  if (reader.has(&NetworkOptions::parameters)) {
    if (reader.has(&NetworkOptions::gradient_bytes)) {
      throw Error(ExitCode::Usage, "--parameters and --gradient-bytes contradict each other")
          .hint("use one of the two");
    }
    constexpr double kFloatBytes = 4;
    one.gradient_bytes = kFloatBytes * reader.take(&NetworkOptions::parameters);
    return one;
  }
  const auto bytes = static_cast<double>(run ? run->gradient_bytes : 0);
  one.gradient_bytes = reader.take_or(
      &NetworkOptions::gradient_bytes, bytes, fmt::format("{:.4g}MB", bytes / kMega));
  if (one.gradient_bytes == 0) {
    throw no_measurement("the size of the gradients is unknown",
                         "gradient_bytes in the events of the run, or an option",
                         "--parameters 124M");
  }
  return one;
}

std::set<int> gpu_counts(std::span<const report::PredictedSize> sizes, int gpus_per_node) {
  std::set<int> counts;
  for (const report::PredictedSize& size : sizes) {
    counts.insert(size.is_nodes ? size.count * gpus_per_node : size.count);
  }
  if (counts.empty()) {
    counts = {8, 64, 512};
  }
  counts.insert(1);
  return counts;
}

}  // namespace

void add_network_options(CLI::App& command, NetworkOptions& options) {
  for (const Input& input : inputs()) {
    command.add_option(input.flag, options.*input.text, input.help)
        ->type_name(input.kind.type)
        ->default_str(input.fallback)
        ->group("Prediction from one GPU");
  }
}

std::optional<std::string> find_network_option(const NetworkOptions& options) {
  for (const Input& input : inputs()) {
    if (input.text != &NetworkOptions::network && (options.*input.text).has_value()) {
      return input.flag;
    }
  }
  return std::nullopt;
}

report::NetworkPrediction predict_from_one_gpu(const NetworkOptions& options,
                                               const std::optional<report::RunMeasure>& run,
                                               std::span<const report::PredictedSize> sizes) {
  if (run) {
    check_run(*run, options);
  }
  using Options = NetworkOptions;
  Reader reader(options, run);
  const report::OneGpu one = read_measurement(reader, run);
  const report::Network network = {
      .gpus_per_node = static_cast<int>(reader.take(&Options::gpus_per_node)),
      .node_rate = reader.take(&Options::network),
      .gpu_rate = reader.take(&Options::intra_node),
      .message_seconds = reader.take(&Options::latency),
      .reached_share = reader.take(&Options::link_efficiency)};
  const report::Exchange exchange = {
      .zero_stage = static_cast<int>(reader.take(&Options::zero_stage)),
      .bucket_bytes = kMega * reader.take(&Options::bucket_mb),
      .backward_share = reader.take(&Options::overlap),
      .jitter = reader.take(&Options::jitter)};
  report::NetworkPrediction prediction{
      .title = fmt::format("predicted from one GPU, {}",
                           exchange.zero_stage == 0
                               ? "all-reduce"
                               : fmt::format("ZeRO stage {}", exchange.zero_stage))};
  for (const int gpus : gpu_counts(sizes, network.gpus_per_node)) {
    prediction.sizes.push_back(report::estimate(one, network, exchange, gpus));
  }
  prediction.assumptions = std::move(reader).assumptions();
  return prediction;
}

}  // namespace lockstep::cli
