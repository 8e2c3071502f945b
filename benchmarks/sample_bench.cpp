// SPDX-License-Identifier: Apache-2.0
// Measures the cost of monitoring: a sample of a node with eight workers, and the events of a
// worker.
#include <benchmark/benchmark.h>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/node_sampler.h"
#include "common/contract/event.h"
#include "common/contract/node_sample.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/process.h"
#include "common/os/rotating_file.h"
#include "launcher/supervisor/console/metric_finder.h"

namespace {

using namespace lockstep;

// Eight workers with one child each, such as a data loader process.
class Workers {
 public:
  Workers() {
    for (int rank = 0; rank < 8; ++rank) {
      children_.push_back(os::start({.executable = "/bin/sh",
                                     .arguments = {"sh", "-c", "sleep 600 & wait"},
                                     .environment = os::environment(),
                                     .inherited = {},
                                     .directory = "",
                                     .has_own_group = true}));
      watched.push_back({.rank = rank, .pid = children_.back().pid(), .visible_gpus = {}});
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    for (os::Child& child : children_) {
      child.signal_group(SIGKILL);
      child.wait();
    }
  }

  std::vector<cluster::WatchedWorker> watched;

 private:
  std::vector<os::Child> children_;
};

void sample_a_node_with_8_workers(benchmark::State& state) {
  const Workers workers;
  cluster::NodeSampler sampler({.node = 0});
  size_t bytes = 0;
  for (auto _ : state) {
    const std::string line = contract::to_json(sampler.sample(workers.watched));
    bytes = line.size();
    benchmark::DoNotOptimize(line);
  }
  state.counters["line_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(sample_a_node_with_8_workers)->Unit(benchmark::kMicrosecond);

const std::vector<plan::Metric> kMetrics = {{.name = "loss", .pattern = "loss: ([0-9.e+-]+)"},
                                            {.name = "step", .pattern = "step ([0-9]+)"}};

// Time advances with every call, so that the limit of events per second is never reached.
void find_in_line(benchmark::State& state, const std::string& line) {
  supervisor::MetricFinder finder(0, kMetrics);
  auto now = supervisor::MetricFinder::Clock::now();
  for (auto _ : state) {
    now += std::chrono::seconds(1);
    benchmark::DoNotOptimize(finder.find(line, now));
  }
}
void match_two_numbers_in_a_line(benchmark::State& state) {
  find_in_line(state, "epoch 3 step 700 loss: 0.123456 lr 3e-4 1234 samples/s\n");
}
BENCHMARK(match_two_numbers_in_a_line);
void match_nothing_in_a_line(benchmark::State& state) {
  find_in_line(state, "a line of some program that says nothing which is asked for at all\n");
}
BENCHMARK(match_nothing_in_a_line);

void write_an_event(benchmark::State& state) {
  const os::TemporaryDirectory directory;
  os::RotatingFile file(directory.path() / "rank-0.jsonl");
  const contract::Event event{.kind = "step",
                              .time = 1700000000.25,
                              .rank = 0,
                              .fields = {{"step", int64_t{7}}, {"loss", 0.123}}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(file.append(contract::to_json(event) + '\n'));
  }
}
BENCHMARK(write_an_event);

}  // namespace
