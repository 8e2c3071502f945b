// SPDX-License-Identifier: Apache-2.0
//
// Searches precision x recomputation x batch size. Batch sizes double until memory is full or two
// doublings bring no gain. Every setting starts with a new model.
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "lockstep/gpt2.h"
#include "tools/bench/commands.h"
#include "tools/bench/gpt2_training.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"
#include "training/models/gpt2_fused.h"
#include "training/train/options/precision.h"

namespace lockstep::bench {
namespace {

// Covers the first pass of fp8, which computes in bf16, and the selection of matrix algorithms.
constexpr int64_t kWarmup = 4;
constexpr int64_t kSteps = 6;
constexpr int64_t kSmallestBatch = 4;
// A larger batch must be faster by this factor, which is more than the noise of six steps. After
// two batch sizes without such a gain, the sweep of a precision ends.
constexpr double kGain = 1.005;

struct Setting {
  std::string precision;
  bool recompute = false;
  int64_t batch = 0;
};

struct Outcome {
  Setting setting;
  std::optional<double> tokens_per_second;  // none: out of memory
  std::optional<uint64_t> peak;
};

std::string flags_of(const Setting& setting) {
  return fmt::format("--precision {} --batch {}{}",
                     setting.precision,
                     setting.batch,
                     setting.recompute ? " --recompute" : "");
}

// Older versions of libtorch have no exception type for this error.
bool is_out_of_memory(const std::exception& fault) {
  const std::string text = fault.what();
  return text.find("out of memory") != std::string::npos ||
         text.find("cudaErrorMemoryAllocation") != std::string::npos ||
         text.find("CUBLAS_STATUS_ALLOC_FAILED") != std::string::npos;
}

// Objects of the failed training must be destroyed before the cache is emptied: the exception has
// left their scope when release_memory() is called.
Outcome train(Session& session, Gpt2BenchOptions options, const Setting& setting) {
  options.batch = setting.batch;
  options.recompute = setting.recompute;
  Outcome outcome{.setting = setting, .tokens_per_second = std::nullopt, .peak = std::nullopt};
  try {
    const torch::Tensor tokens = draw_tokens(options, gpt2_options(options.size).vocabulary);
    TimedTraining training = make_training(
        session,
        options,
        tokens,
        train::in_precision(loss_of<Gpt2>(NextToken()), setting.precision, session.device()),
        kWarmup + kSteps);
    forget_peak(training.device());
    training.run(kWarmup);
    const double seconds = seconds_of(training.device(), [&] { training.run(kSteps); });
    outcome.tokens_per_second =
        static_cast<double>(kSteps * options.batch * options.context) / seconds;
    outcome.peak = peak_bytes(training.device());
  } catch (const std::exception& fault) {
    if (!is_out_of_memory(fault)) {
      throw;
    }
  }
  release_memory(session.device());
  return outcome;
}

// Each line is printed as soon as it is known; a sweep takes minutes.
void print(const Outcome& outcome) {
  const Setting& setting = outcome.setting;
  const std::string rate = outcome.tokens_per_second
                               ? fmt::format("{:.0f}", *outcome.tokens_per_second)
                               : std::string("out of memory");
  const std::string peak =
      outcome.peak ? fmt::format("{:.2f}", static_cast<double>(*outcome.peak) / (1 << 30)) : "";
  fmt::print("{:<11}{:<11}{:>6}{:>15}{:>13}\n",
             setting.precision,
             setting.recompute ? "yes" : "no",
             setting.batch,
             rate,
             peak);
  std::fflush(stdout);
}

// Measures the batch sizes of one precision in ascending order.
std::vector<Outcome> sweep_batches(Session& session,
                                   const Gpt2BenchOptions& options,
                                   const std::string& precision,
                                   bool recompute) {
  std::vector<Outcome> outcomes;
  double best = 0;
  int without_gain = 0;
  for (int64_t batch = std::min(kSmallestBatch, options.largest_batch);
       batch <= options.largest_batch && without_gain < 2;
       batch *= 2) {
    outcomes.push_back(
        train(session, options, {.precision = precision, .recompute = recompute, .batch = batch}));
    print(outcomes.back());
    const std::optional<double> rate = outcomes.back().tokens_per_second;
    // Larger batches need more memory and would fail as well.
    if (!rate) {
      break;
    }
    without_gain = *rate > best * kGain ? 0 : without_gain + 1;
    best = std::max(best, *rate);
  }
  return outcomes;
}

// The smallest batch size, and thereby the least memory, among the settings that are as fast as the
// fastest within kGain. Throws an Error if no setting fits in memory.
const Outcome& select_fastest(const std::vector<Outcome>& outcomes,
                              const Gpt2BenchOptions& options,
                              torch::Device device) {
  double best = 0;
  for (const Outcome& outcome : outcomes) {
    best = std::max(best, outcome.tokens_per_second.value_or(0));
  }
  if (best == 0) {
    throw Error(
        ExitCode::Unavailable,
        fmt::format("cannot train GPT-2 {} on {}: out of memory", options.size, device.str()))
        .hint("use a smaller --size or --context");
  }
  const Outcome* selected = nullptr;
  for (const Outcome& outcome : outcomes) {
    if (outcome.tokens_per_second.value_or(0) * kGain >= best &&
        (selected == nullptr || outcome.setting.batch < selected->setting.batch)) {
      selected = &outcome;
    }
  }
  return *selected;
}

nlohmann::json json_of(const Outcome& outcome) {
  nlohmann::json json = {{"precision", outcome.setting.precision},
                         {"recompute", outcome.setting.recompute},
                         {"batch", outcome.setting.batch}};
  if (outcome.tokens_per_second) {
    json["tokens_per_second"] = *outcome.tokens_per_second;
  }
  if (outcome.peak) {
    json["peak_bytes"] = *outcome.peak;
  }
  return json;
}

std::vector<std::string> precisions_of(torch::Device device) {
  if (!device.is_cuda()) {
    return {"fp32"};
  }
  return models::reason_against_fp8(device).empty() ? std::vector<std::string>{"bf16", "fp8"}
                                                    : std::vector<std::string>{"bf16"};
}

}  // namespace

int sweep_gpt2(const Gpt2BenchOptions& asked) {
  Gpt2BenchOptions options = asked;
  const int64_t longest = gpt2_options(asked.size).context;
  options.context = asked.context == 0 ? longest : std::min(asked.context, longest);
  std::vector<std::string> flags = {"--device", options.common.device};
  flags.insert(flags.end(), options.common.flags.begin(), options.common.flags.end());
  return in_session(flags, [&](Session& session) {
    fmt::print("GPT-2 {}, sequences of {} tokens, {}, {}\n\n{:<11}{:<11}{:>6}{:>15}{:>13}\n",
               options.size,
               options.context,
               options.optimizer,
               session.device().str(),
               "precision",
               "recompute",
               "batch",
               "tokens/s",
               "memory, GiB");
    std::vector<Outcome> outcomes;
    for (const std::string& precision : precisions_of(session.device())) {
      for (const bool recompute : {false, true}) {
        const auto more = sweep_batches(session, options, precision, recompute);
        outcomes.insert(outcomes.end(), more.begin(), more.end());
      }
    }
    const Outcome& fastest = select_fastest(outcomes, options, session.device());
    fmt::print("\nfastest    {} ({:.0f} tokens/s)\n",
               flags_of(fastest.setting),
               *fastest.tokens_per_second);
    if (!options.common.json.empty()) {
      nlohmann::json json = {{"what", "gpt2_sweep"},
                             {"size", options.size},
                             {"context", options.context},
                             {"optimizer", options.optimizer},
                             {"device", session.device().str()},
                             {"fastest", json_of(fastest)}};
      for (const Outcome& outcome : outcomes) {
        json["runs"].push_back(json_of(outcome));
      }
      os::write_file(options.common.json, json.dump(1) + "\n");
    }
  });
}

}  // namespace lockstep::bench
