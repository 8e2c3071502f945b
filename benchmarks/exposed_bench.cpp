// SPDX-License-Identifier: Apache-2.0
//
// Measures the exposed communication of a step. exposed_bench.py starts it with one worker on each
// end of a slow link. It can also be started directly:
//
//   lockstep run --nproc-per-node 2 -- exposed_bench -s ddp --no-overlap
//
// Each worker trains the same network twice, in alternating steps: together with the other workers,
// and alone with -s single on its local batch. The exposed time of a step is the difference.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <lockstep/lockstep.h>
#include <vector>

#include "common/base/median.h"
#include "stack.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes sent on all interfaces except loopback, from the counters of the kernel. Under
// exposed_bench.py each worker has its own network namespace, so no other traffic is counted.
int64_t sent_bytes() {
  int64_t sum = 0;
  for (const auto& interface : std::filesystem::directory_iterator("/sys/class/net")) {
    if (interface.path().filename() != "lo") {
      int64_t bytes = 0;
      std::ifstream(interface.path() / "statistics" / "tx_bytes") >> bytes;
      sum += bytes;
    }
  }
  return sum;
}

struct Trained {
  std::shared_ptr<Stack> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<Strategy> strategy;

  // Runs one step and returns its milliseconds.
  double step(const Batch& batch) const {
    const auto begin = Clock::now();
    strategy->accumulate(stack_loss, batch, {});
    strategy->step();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
};

void measure(Session& session) {
  const int64_t width = std::stoll(session.option("--width"));
  const int64_t layers = std::stoll(session.option("--layers"));
  const int64_t share = std::stoll(session.option("--share"));
  const int rounds = std::stoi(session.option("--rounds"));
  comm::Solo solo;
  const auto make = [&](std::unique_ptr<Strategy> strategy) {
    torch::manual_seed(1);
    Trained trained{std::make_shared<Stack>(layers, width), nullptr, std::move(strategy)};
    trained.optimizer = std::make_unique<torch::optim::SGD>(trained.model->parameters(), 0.01);
    trained.strategy->adopt(*trained.model, *trained.optimizer);
    return trained;
  };
  const Trained group = make(session.make_strategy());
  const Trained alone = make(make_strategy("single", solo));
  const Batch batch{torch::randn({share, width}), torch::randn({share, width})};

  // Bytes are the average over all steps. They include acknowledgements of data from the other
  // worker.
  constexpr int kWarmUp = 4;
  std::vector<double> with_exchange;
  std::vector<double> without;
  std::vector<double> exposed;
  int64_t bytes = 0;
  for (int round = -kWarmUp; round < rounds; ++round) {
    const double apart = alone.step(batch);
    session.communicator().barrier();
    const int64_t before = sent_bytes();
    const double together = group.step(batch);
    const int64_t sent = sent_bytes() - before;
    if (round >= 0) {
      with_exchange.push_back(together);
      without.push_back(apart);
      exposed.push_back(together - apart);
      bytes += sent;
    }
  }
  // The maximum over the workers: a step ends when the slower worker ends.
  torch::Tensor figures = torch::tensor({median(with_exchange),
                                         median(without),
                                         median(exposed),
                                         static_cast<double>(bytes) / rounds},
                                        torch::kFloat64);
  session.communicator().all_reduce(figures, Reduction::Max);
  int64_t parameters = 0;
  for (const torch::Tensor& parameter : alone.model->parameters()) {
    parameters += parameter.numel();
  }
  session.say(
      fmt::format("{{\"strategy\": \"{}\", \"workers\": {}, \"transport\": \"{}\", "
                  "\"parameters\": {}, \"rounds\": {}, \"step_ms\": {:.1f}, "
                  "\"alone_ms\": {:.1f}, \"exposed_ms\": {:.1f}, \"bytes\": {:.0f}}}",
                  group.strategy->name(),
                  session.world_size(),
                  session.communicator().kind(),
                  parameters,
                  rounds,
                  figures[0].item<double>(),
                  figures[1].item<double>(),
                  figures[2].item<double>(),
                  figures[3].item<double>()));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{.about = "Measures the exposed communication of a step",
                                  .options = {{"--layers", "20", "Number of matrices"},
                                              {"--width", "512", "Rows and columns per matrix"},
                                              {"--share", "256", "Samples per worker and step"},
                                              {"--rounds", "30", "Measured steps"}}};
  return lockstep::run(argc, argv, program, lockstep::measure);
}
