// SPDX-License-Identifier: Apache-2.0
//
// Measures memory and step time of the ZeRO stages and of ddp:
//
//   lockstep run --nproc-per-node 2 -- zero_bench -s deepspeed --zero-stage 2
//
// Memory is the peak resident memory during a step minus the resident memory before the model was
// created. The batch is small, so that activations are negligible.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <lockstep/lockstep.h>
#include <vector>

#include "common/os/memory.h"
#include "stack.h"
#include "training/comm/solo.h"
#include "training/strategy/zero/memory.h"
#include "training/train/options/flags.h"
#include "training/train/session/session_parts.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// Resets the peak resident memory (VmHWM) of this process.
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

int64_t peak_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word == "VmHWM:") {
      int64_t kibibytes = 0;
      file >> kibibytes;
      return kibibytes * 1024;
    }
  }
  return 0;
}

void train(Strategy& strategy, int64_t share, int64_t width, int accumulate) {
  for (int part = 0; part < accumulate; ++part) {
    strategy.accumulate(stack_loss,
                        {torch::randn({share, width}), torch::randn({share, width})},
                        {.weight = 1.0 / accumulate, .last = part + 1 == accumulate});
  }
  strategy.step();
}

void measure(Session& session) {
  const int64_t width = std::stoll(session.option("--width"));
  const int64_t layers = std::stoll(session.option("--layers"));
  const int64_t share = std::stoll(session.option("--share"));
  const int rounds = std::stoi(session.option("--rounds"));
  const int accumulate = std::stoi(session.option("--shares"));
  {
    // Loads libraries and allocates their buffers, so that they do not count as memory of the
    // model.
    comm::Solo solo;
    Stack small(2, 256);
    torch::optim::AdamW adam(small.parameters(), torch::optim::AdamWOptions(1e-3));
    const auto strategy = make_strategy("single", solo);
    strategy->adopt(small, adam);
    train(*strategy, share, 256, 1);
  }
  os::give_back_freed_memory();
  const auto before = static_cast<int64_t>(os::resident_bytes());

  torch::manual_seed(1);
  Stack model(layers, width);
  torch::optim::AdamW adam(model.parameters(), torch::optim::AdamWOptions(1e-3));
  const StrategyOptions options =
      train::resolve(StrategyOptions(), SessionAccess::parts(session).flags);
  const auto need = strategy::zero::memory_need(
      model, adam, options.zero, session.world_size(), {.accumulates = accumulate > 1});
  const auto strategy = session.make_strategy();
  strategy->adopt(model, adam);
  train(*strategy, share, width, accumulate);
  forget_peak();
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    session.communicator().barrier();
    const auto begin = Clock::now();
    train(*strategy, share, width, accumulate);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  torch::Tensor figures = torch::tensor(
      {times[times.size() / 2], static_cast<double>(peak_bytes() - before)}, torch::kFloat64);
  session.communicator().all_reduce(figures, Reduction::Max);
  const double held = figures[1].item<double>();
  const auto formula = static_cast<double>(need.total());
  session.say(
      fmt::format("{:<10} stage {}  {} workers  {:8.1f} ms  {:8.1f} MB used  {:8.1f} MB "
                  "calculated  {:+.1f} %",
                  strategy->name(),
                  options.zero.stage,
                  session.world_size(),
                  figures[0].item<double>(),
                  held / 1e6,
                  formula / 1e6,
                  100 * (held / formula - 1)));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{.about = "Measures memory and step time of the ZeRO stages",
                                  .options = {{"--layers", "24", "Number of matrices"},
                                              {"--width", "2048", "Rows and columns per matrix"},
                                              {"--share", "16", "Samples per micro-batch"},
                                              {"--shares", "1", "Micro-batches per step"},
                                              {"--rounds", "5", "Measured steps"}}};
  return lockstep::run(argc, argv, program, lockstep::measure);
}
