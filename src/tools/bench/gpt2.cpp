// SPDX-License-Identifier: Apache-2.0
//
// Order of a measurement:
//
//   tokens        generated with a fixed seed, or read; saved for the peer
//   training      warm-up, three timed blocks, peak memory, then steps measured by parts
//   limits        matrix rate and copy bandwidth of the device, after the memory was released
//   peer          the same weights and tokens, in another process
//
// The parts of a step are measured separately because they need a synchronization after each part,
// which would slow down the timed blocks.
#include "lockstep/gpt2.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/base/median.h"
#include "common/base/text.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "lockstep/error.h"
#include "lockstep/optimizer.h"
#include "lockstep/strategy.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/commands.h"
#include "tools/bench/curve.h"
#include "tools/bench/gpt2_flops.h"
#include "tools/bench/gpt2_training.h"
#include "tools/bench/peer.h"
#include "tools/bench/report.h"
#include "tools/bench/session.h"
#include "tools/bench/timed_training.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {
namespace {

// The median of three blocks: one disturbance does not change the result.
constexpr int kBlocks = 3;
constexpr int kPartSteps = 3;  // to measure the parts of a step

struct Figures {
  double seconds_per_step = 0;
  Parts parts;
  std::vector<double> losses;  // of warm-up and timed steps
  std::optional<uint64_t> peak;
  Ceilings ceilings;
  std::string device;
};

void require_possible(const Gpt2BenchOptions& options, const Gpt2Options& model) {
  if (options.context > model.context) {
    throw Error(ExitCode::Usage, "--context exceeds the context length of the model")
        .fact("found", fmt::format("--context {}", options.context), "command line")
        .fact("maximum", std::to_string(model.context), "the model")
        .hint(fmt::format("--context {}", model.context));
  }
  if (options.common.peer && options.optimizer == "muon") {
    throw Error(ExitCode::Usage, "cannot compare muon with Python: the peer does not support it")
        .fact("found", "--optimizer muon and --peer", "command line")
        .hint("drop --peer, or --optimizer adamw");
  }
}

// int64 in host byte order, [batches, N, T + 1], without a header: torch.from_file() of the peer
// reads it.
void write_tokens(const std::filesystem::path& path, const torch::Tensor& tokens) {
  const torch::Tensor flat = tokens.contiguous();
  os::write_file(path, {static_cast<const char*>(flat.data_ptr()), flat.nbytes()});
}

// The training ends with its scope: model and optimizer must be freed before the limits are
// measured, and before the peer uses the same GPU.
Figures measure(Session& session, const Gpt2BenchOptions& options) {
  const int64_t vocabulary = gpt2_options(options.size).vocabulary;
  const torch::Tensor tokens =
      options.tokens.empty() ? draw_tokens(options, vocabulary) : read_tokens(options, vocabulary);
  if (!options.save_tokens.empty()) {
    write_tokens(options.save_tokens, tokens);
  }
  Figures figures;
  figures.device = session.device().str();
  {
    TimedTraining training = make_training(session,
                                           options,
                                           tokens,
                                           loss_of<Gpt2>(NextToken()),
                                           options.warmup + kBlocks * options.steps);
    forget_peak(training.device());
    training.run(options.warmup);
    std::vector<double> blocks;
    for (int block = 0; block < kBlocks; ++block) {
      blocks.push_back(seconds_of(training.device(), [&] { training.run(options.steps); }) /
                       static_cast<double>(options.steps));
    }
    figures.seconds_per_step = median(blocks);
    figures.peak = peak_bytes(training.device());
    figures.parts = training.run_by_parts(kPartSteps);
    figures.losses = training.losses();
  }
  release_memory(session.device());
  // fp8 is compared with the matrix rate of bf16, since libtorch's mm() has no fp8. A result above
  // 100 % is therefore possible.
  figures.ceilings = measure_ceilings(
      session.device(), options.precision == "fp32" ? torch::kFloat32 : torch::kBFloat16);
  release_memory(session.device());
  return figures;
}

// The peer has no fp8 kernels and computes in bf16 instead; the table then compares different
// types, as the help states.
nlohmann::json run_gpt2_peer(const Gpt2BenchOptions& options,
                             const std::filesystem::path& script,
                             const std::string& device) {
  const Gpt2Options model = gpt2_options(options.size);
  return run_peer(options.common.python,
                  script,
                  {"--layers",     std::to_string(model.layers),
                   "--heads",      std::to_string(model.heads),
                   "--width",      std::to_string(model.width),
                   "--positions",  std::to_string(model.context),
                   "--vocabulary", std::to_string(model.vocabulary),
                   "--batch",      std::to_string(options.batch),
                   "--context",    std::to_string(options.context),
                   "--precision",  options.precision == "fp8" ? "bf16" : options.precision,
                   "--optimizer",  options.optimizer,
                   "--steps",      std::to_string(options.steps),
                   "--warmup",     std::to_string(options.warmup),
                   "--device",     device.starts_with("cuda") ? "cuda" : "cpu",
                   "--mode",       options.peer_mode,
                   "--weights",    options.save_weights.string(),
                   "--tokens",     options.save_tokens.string()});
}

// The results as JSON.
// Operations are those of the model: --recompute makes a step slower but does not increase them
// (model FLOPs utilization, Chowdhery et al. 2022).
nlohmann::json figures_of(const Gpt2BenchOptions& options, const Figures& figures) {
  const Gpt2Options model = gpt2_options(options.size);
  const auto tokens = static_cast<double>(options.batch * options.context);
  nlohmann::json json = {
      {"tokens_per_second", tokens / figures.seconds_per_step},
      {"ms_per_step", 1e3 * figures.seconds_per_step},
      {"forward_ms", figures.parts.forward},
      {"backward_ms", figures.parts.backward},
      {"update_ms", figures.parts.update},
      {"losses", figures.losses},
      {"flops_per_token", gpt2_flops_per_token(model, options.context)},
  };
  if (figures.peak) {
    json["peak_bytes"] = *figures.peak;
  }
  return json;
}

// Memory traffic of AdamW per second: it must read parameter, gradient and both moments and write
// all but the gradient, four bytes each. Nothing for other optimizers.
std::optional<double> update_bandwidth(const Gpt2BenchOptions& options,
                                       const nlohmann::json& side) {
  const auto milliseconds = find_figure(side, "update_ms");
  if (!options.optimizer.starts_with("adam") || !milliseconds) {
    return std::nullopt;
  }
  const auto parameters = static_cast<double>(gpt2_parameters(gpt2_options(options.size)));
  return 28 * parameters / (*milliseconds * 1e-3);
}

std::optional<double> times(const std::optional<double>& value, double factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

// The training as a whole is compared with the matrix rate, which limits it, and the optimizer with
// the copy bandwidth, because it makes few operations per byte.
void print(const Gpt2BenchOptions& options, const Ceilings& ceilings, const nlohmann::json& json) {
  const nlohmann::json& ours = json.at("lockstep");
  const nlohmann::json theirs = json.value("peer", nlohmann::json::object());
  const double flops = ours.at("flops_per_token");
  const auto row = [&](const char* name, const char* key, double factor, int digits) -> Row {
    return {name,
            times(find_figure(ours, key), factor),
            times(find_figure(theirs, key), factor),
            digits};
  };
  std::vector<Row> rows = {
      row("tokens/s", "tokens_per_second", 1, 0),
      row("ms per step", "ms_per_step", 1, 2),
      row("  forward", "forward_ms", 1, 2),
      row("  backward", "backward_ms", 1, 2),
      row("  optimizer", "update_ms", 1, 2),
      row("TFLOP/s", "tokens_per_second", flops / 1e12, 3),
      row("% of the matrix rate", "tokens_per_second", 1e2 * flops / ceilings.matrix_rate, 1),
      {"% of the copy bandwidth, optimizer",
       times(update_bandwidth(options, ours), 1e2 / ceilings.copy_bandwidth),
       times(update_bandwidth(options, theirs), 1e2 / ceilings.copy_bandwidth),
       1},
      row("peak memory, GiB", "peak_bytes", 1.0 / (1 << 30), 2),
  };
  const std::vector<Row> losses = loss_rows(ours, theirs);
  rows.insert(rows.end(), losses.begin(), losses.end());

  fmt::print("GPT-2 {}, {} x {} tokens per step, {}, {}, {}\n\n",
             options.size,
             options.batch,
             options.context,
             options.precision,
             options.optimizer,
             json.at("device").get<std::string>());
  const std::string name =
      theirs.empty() ? "" : fmt::format("PyTorch {}", theirs.value("mode", "peer"));
  fmt::print("{}\n", format_rows(rows, name));
  fmt::print("matrix rate     {:.3f} TFLOP/s ({} x {})\ncopy bandwidth  {:.1f} GB/s\n",
             ceilings.matrix_rate / 1e12,
             ceilings.matrix_side,
             ceilings.matrix_side,
             ceilings.copy_bandwidth / 1e9);
  if (!theirs.empty()) {
    fmt::print("loss curves     maximum difference {:.6f}, at step {}\n",
               json.at("largest_loss_difference").get<double>(),
               json.at("largest_loss_difference_step").get<size_t>());
  }
}

void report(const Gpt2BenchOptions& options, const Figures& figures, const nlohmann::json& theirs) {
  nlohmann::json json = {
      {"what", "gpt2"},
      {"size", options.size},
      {"batch", options.batch},
      {"context", options.context},
      {"precision", options.precision},
      {"optimizer", options.optimizer},
      {"steps", options.steps},
      {"warmup", options.warmup},
      {"device", figures.device},
      {"matrix_rate", figures.ceilings.matrix_rate},
      {"copy_bandwidth", figures.ceilings.copy_bandwidth},
      {"lockstep", figures_of(options, figures)},
  };
  if (!theirs.empty()) {
    const Difference difference = compare(figures.losses, losses_of(theirs));
    json["peer"] = theirs;
    json["largest_loss_difference"] = difference.largest;
    json["largest_loss_difference_step"] = difference.step;
  }
  print(options, figures.ceilings, json);
  if (!options.curve.empty()) {
    write_curve(options.curve, figures.losses, losses_of(theirs));
  }
  if (!options.common.json.empty()) {
    os::write_file(options.common.json, json.dump(1) + "\n");
  }
}

}  // namespace

// With --peer, weights and tokens are passed in files. They stay in the scratch directory unless
// the user names them.
int measure_gpt2(const Gpt2BenchOptions& asked) {
  const Gpt2Options model = gpt2_options(asked.size);
  require_possible(asked, model);
  Gpt2BenchOptions options = asked;
  options.context = asked.context == 0 ? model.context : asked.context;
  std::optional<os::TemporaryDirectory> scratch;
  std::filesystem::path script;
  if (options.common.peer) {
    script = find_peer("gpt2", options.common.python);
    scratch.emplace("lockstep-bench-gpt2");
    const auto or_scratch = [&](std::filesystem::path& path, const char* name) {
      path = path.empty() ? scratch->path() / name : path;
    };
    or_scratch(options.save_weights, "weights.pt");
    or_scratch(options.save_tokens, "tokens.bin");
  }
  std::vector<std::string> flags = {
      "--device", options.common.device, "--precision", options.precision};
  if (!options.strategy.empty()) {
    flags.insert(flags.end(), {"--strategy", options.strategy});
  }
  flags.insert(flags.end(), options.common.flags.begin(), options.common.flags.end());
  Figures figures;
  const int code =
      in_session(flags, [&](Session& session) { figures = measure(session, options); });
  if (code != 0) {
    return code;
  }
  nlohmann::json theirs = nlohmann::json::object();
  if (options.common.peer) {
    try {
      theirs = run_gpt2_peer(options, script, figures.device);
    } catch (const Error&) {
      report(options, figures, theirs);  // the results of lockstep are not lost
      throw;
    }
  }
  report(options, figures, theirs);
  return 0;
}

}  // namespace lockstep::bench
