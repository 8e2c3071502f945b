// SPDX-License-Identifier: Apache-2.0
//
// Measures what the Trainer adds to a step. Both sides use the same loader, network, optimizer and
// data on the device; rounds alternate, and the overhead is the median of the differences within
// rounds, in which slow changes of the clock frequency cancel out. The steps are so short that
// every operation of the host is visible.
#include <fmt/format.h>
#include <numeric>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "common/base/median.h"
#include "common/os/files.h"
#include "lockstep/datasets.h"
#include "lockstep/loader.h"
#include "lockstep/models.h"
#include "lockstep/optimizer.h"
#include "lockstep/trainer.h"
#include "tools/bench/commands.h"
#include "tools/bench/peer.h"
#include "tools/bench/report.h"
#include "tools/bench/session.h"
#include "tools/bench/step_timer.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {
namespace {

constexpr int kRounds = 5;  // alternating, so that a disturbance affects both sides
constexpr int64_t kDigits = 4096;

struct Figures {
  double bare_us = 0;  // per step
  double trainer_us = 0;
  double overhead_us = 0;
  std::optional<double> graph_us = std::nullopt;  // Trainer with a CUDA graph
  std::string device;
};

// The digits of one epoch of `steps` steps, on the device. A few digits are generated and repeated,
// because generation is not part of the measurement. The epoch has exactly the warm-up and timed
// steps; no epoch boundary falls into the timed block.
DatasetPtr make_digits(const MnistBenchOptions& options, int64_t steps, torch::Device device) {
  const DatasetPtr drawn = generated_digits(kDigits, 1, /*seed=*/1).train;
  std::vector<int64_t> all(static_cast<size_t>(kDigits));
  std::iota(all.begin(), all.end(), 0);
  const Batch ready = drawn->batch(all);
  // Rounded up; take() cuts off what exceeds the epoch.
  const int64_t copies = (steps * options.batch + kDigits - 1) / kDigits;
  return on_device(take(tensors(ready.input.repeat({copies, 1, 1, 1}), ready.target.repeat(copies)),
                        steps * options.batch),
                   device);
}

OptimizerOptions optimizer_options() {
  return {.name = "sgd", .lr = 0.02};
}

// A plain libtorch loop with the same loader.
double time_bare_loop(Session& session,
                      const MnistBenchOptions& options,
                      const DatasetPtr& digits) {
  torch::manual_seed(1);
  const auto net = digit_net(options.net);
  net->to(session.device());
  net->train();
  const std::vector<torch::Tensor> parameters = net->parameters();
  const auto optimizer = make_optimizer(parameters, optimizer_options());
  const DistributedSampler sampler({.dataset_size = digits->size(),
                                    .global_batch = options.batch,
                                    .rank = 0,
                                    .world_size = 1,
                                    .tail = Tail::Drop});
  Loader loader(digits, sampler, {.pin_memory = session.device().is_cuda()});
  StepTimer timer(session.device(), options.warmup, options.steps);
  for (int64_t step = 1; step <= sampler.steps(); ++step) {
    const Batch batch = loader.next()->to(session.device(), /*non_blocking=*/true);
    CrossEntropy()(*net, batch).value.backward();
    optimizer->step();
    // zero_grad() of libtorch 1.13 fills gradients with zeros, which is slower than the Trainer.
    for (const torch::Tensor& parameter : parameters) {
      parameter.mutable_grad() = torch::Tensor();
    }
    timer.after_step(step);
  }
  return timer.microseconds_per_step();
}

// The same seed as in the bare loop, hence the same weights. A negative checkpoint_every disables
// checkpoints, whose writing would be part of the measured steps.
double time_trainer(Session& session, const MnistBenchOptions& options, const DatasetPtr& digits) {
  torch::manual_seed(1);
  const auto net = digit_net(options.net);
  const auto optimizer = session.make_optimizer(net->parameters(), optimizer_options());
  StepTimer timer(session.device(), options.warmup, options.steps);
  Trainer trainer(session, {.epochs = 1, .global_batch = options.batch, .checkpoint_every = -1});
  trainer.add(std::make_unique<TimerCallback>(timer));
  fit_silently(trainer, *net, *optimizer, digits);
  return timer.microseconds_per_step();
}

Figures measure(Session& session, const MnistBenchOptions& options) {
  const DatasetPtr digits = make_digits(options, options.warmup + options.steps, session.device());
  // Warms up both, and lets the Trainer select the convolution algorithm for CPUs in this process.
  time_trainer(session, options, digits);
  time_bare_loop(session, options, digits);
  std::vector<double> bare;
  std::vector<double> trainer;
  std::vector<double> overhead;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(time_bare_loop(session, options, digits));
    trainer.push_back(time_trainer(session, options, digits));
    overhead.push_back(trainer.back() - bare.back());
  }
  return {.bare_us = median(bare),
          .trainer_us = median(trainer),
          .overhead_us = median(overhead),
          .device = session.device().str()};
}

// Measures only the Trainer, in a session with a CUDA graph. A session of its own: the flag applies
// to a whole session, and a recorded graph keeps its memory.
double measure_graph(Session& session, const MnistBenchOptions& options) {
  const DatasetPtr digits = make_digits(options, options.warmup + options.steps, session.device());
  std::vector<double> trainer;
  for (int round = 0; round < kRounds; ++round) {
    trainer.push_back(time_trainer(session, options, digits));
  }
  return median(trainer);
}

void report(const MnistBenchOptions& options, const Figures& ours, const nlohmann::json& theirs) {
  const auto rate = [&](double microseconds) {
    return static_cast<double>(options.batch) * 1e6 / microseconds;
  };
  const std::optional<double> eager = find_figure(theirs, "eager_us");
  const std::optional<double> graph = find_figure(theirs, "graph_us");
  const std::optional<double> compiled = find_figure(theirs, "compiled_us");
  const auto rate_of = [&](const std::optional<double>& microseconds) {
    return microseconds ? std::optional(rate(*microseconds)) : std::nullopt;
  };
  std::vector<Row> rows = {
      {"images/s, bare loop", rate(ours.bare_us), rate_of(eager), 0},
      {"images/s, Trainer", rate(ours.trainer_us), rate_of(eager), 0},
      {"us per step, bare loop", ours.bare_us, eager, 1},
      {"us per step, Trainer", ours.trainer_us, eager, 1},
      {"us per step, Trainer - bare loop", ours.overhead_us, std::nullopt, 1},
  };
  if (ours.graph_us) {
    rows.push_back({"images/s, CUDA graph", rate_of(ours.graph_us), rate_of(graph), 0});
    rows.push_back({"us per step, CUDA graph", ours.graph_us, graph, 1});
    if (compiled) {
      rows.push_back({"us per step, CUDA graph (peer: compiled)", ours.graph_us, compiled, 1});
    }
  }
  fmt::print("MNIST, {}, {} images per step, sgd, {}; medians of {} rounds of {} steps\n\n{}\n",
             options.net,
             options.batch,
             ours.device,
             kRounds,
             options.steps,
             format_rows(rows, theirs.empty() ? "" : "PyTorch eager"));
  if (!options.common.json.empty()) {
    nlohmann::json json = {{"what", "mnist"},
                           {"net", options.net},
                           {"batch", options.batch},
                           {"steps", options.steps},
                           {"device", ours.device},
                           {"lockstep",
                            {{"bare_us", ours.bare_us},
                             {"eager_us", ours.trainer_us},
                             {"overhead_us", ours.overhead_us},
                             {"images_per_second", rate(ours.trainer_us)}}}};
    if (ours.graph_us) {
      json["lockstep"]["graph_us"] = *ours.graph_us;
    }
    if (!theirs.empty()) {
      json["peer"] = theirs;
    }
    os::write_file(options.common.json, json.dump(1) + "\n");
  }
}

}  // namespace

int measure_mnist(const MnistBenchOptions& options) {
  std::filesystem::path script;
  if (options.common.peer) {
    script = find_peer("mnist", options.common.python);
  }
  Figures ours;
  std::vector<std::string> flags = {"--device", options.common.device};
  flags.insert(flags.end(), options.common.flags.begin(), options.common.flags.end());
  // The bare loop runs without a CUDA graph, so the Trainer must do the same in this comparison.
  std::vector<std::string> plain = flags;
  plain.insert(plain.end(), {"--cuda-graph", "off"});
  int code = in_session(plain, [&](Session& session) {
    ours = measure(session, options);
    release_memory(session.device());
  });
  if (code == 0 && ours.device.starts_with("cuda")) {
    flags.insert(flags.end(), {"--cuda-graph", "on"});
    code = in_session(flags, [&](Session& session) {
      ours.graph_us = measure_graph(session, options);
      release_memory(session.device());
    });
  }
  if (code != 0) {
    return code;
  }
  nlohmann::json theirs = nlohmann::json::object();
  if (options.common.peer) {
    theirs = run_peer(options.common.python,
                      script,
                      {"--net",
                       options.net,
                       "--batch",
                       std::to_string(options.batch),
                       "--steps",
                       std::to_string(options.steps),
                       "--warmup",
                       std::to_string(options.warmup),
                       "--rounds",
                       std::to_string(kRounds),
                       "--device",
                       ours.device.starts_with("cuda") ? "cuda" : "cpu"});
  }
  report(options, ours, theirs);
  return 0;
}

}  // namespace lockstep::bench
