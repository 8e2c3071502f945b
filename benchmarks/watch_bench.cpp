// SPDX-License-Identifier: Apache-2.0
// Measures time and memory of the event store of `lockstep watch`, with simulated event files.
//
//   watch_bench [RANKS [EVENTS [DIRECTORY]]]
//
// Writes files of RANKS workers with EVENTS step events each, and samples of one node per eight
// workers. Measures the first poll, a poll without new events, a poll after one more step of every
// rank, and the outputs.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string>

#include "common/base/text.h"
#include "common/contract/event.h"
#include "common/contract/node_sample.h"
#include "common/os/files.h"
#include "common/os/memory.h"
#include "launcher/monitor/event_store.h"
#include "launcher/monitor/prometheus.h"
#include "launcher/monitor/screen.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kStart = 1.7e9;
constexpr int kPerNode = 8;

std::string step_line(int rank, int64_t step) {
  return contract::to_json({.kind = "step",
                            .time = kStart + static_cast<double>(step) * 0.25,
                            .rank = rank,
                            .fields = {{"step", step},
                                       {"epoch", int64_t{1}},
                                       {"loss", 2.0 / static_cast<double>(step + 1)},
                                       {"learning_rate", 0.1},
                                       {"samples_per_second", 12345.6},
                                       {"data_seconds", 0.01},
                                       {"compute_seconds", 0.15 + 0.0001 * (rank % 7)},
                                       {"exchange_seconds", 0.08},
                                       {"checkpoint_seconds", 0.0},
                                       {"gradient_norm", 1.5}}}) +
         "\n";
}

std::string node_line(int node, int64_t second) {
  contract::NodeSample sample{.time = kStart + static_cast<double>(second),
                              .node = node,
                              .host = fmt::format("node-{}", node),
                              .cores = 60,
                              .granted = 64,
                              .memory_bytes = int64_t{100} << 30,
                              .memory_limit_bytes = int64_t{500} << 30};
  sample.interfaces = {
      {.name = "ib0", .received_bytes = second * 1000, .sent_bytes = second * 900}};
  for (int i = 0; i < kPerNode; ++i) {
    contract::GpuSample gpu;
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-{}-{}", node, i);
    gpu.name = "NVIDIA H200";
    gpu.utilisation = 0.9;
    gpu.memory_bytes = int64_t{100} << 30;
    gpu.memory_total_bytes = int64_t{140} << 30;
    gpu.power_watts = 600;
    gpu.temperature = 60;
    sample.gpus.push_back(gpu);
    sample.workers.push_back({.rank = node * kPerNode + i,
                              .pid = 100 + i,
                              .cores = 7.5,
                              .memory_bytes = int64_t{12} << 30,
                              .gpus = {i}});
  }
  return contract::to_json(sample) + "\n";
}

template <typename Work>
void measure(const char* what, Work work) {
  const Clock::time_point begin = Clock::now();
  const std::clock_t busy = std::clock();
  work();
  const double processor = static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("{:<30} {:>9.1f} ms wall time {:>9.1f} ms CPU time   peak resident {}\n",
             what,
             seconds * 1e3,
             processor * 1e3,
             format_bytes(os::peak_resident_bytes()));
}

int bench(int ranks, int64_t events, const fs::path& directory) {
  const contract::RunDirectory run(directory);
  os::make_directories(run.events(0).parent_path());
  uint64_t bytes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ofstream file(run.events(rank));
    for (int64_t step = 1; step <= events; ++step) {
      file << step_line(rank, step);
    }
    bytes += static_cast<uint64_t>(file.tellp());
  }
  for (int node = 0; node * kPerNode < ranks; ++node) {
    std::ofstream file(run.node_samples(node));
    for (int64_t second = 1; second <= events / 4; ++second) {
      file << node_line(node, second);
    }
    bytes += static_cast<uint64_t>(file.tellp());
  }
  fmt::print("{} ranks, {} step events in total, {}\n", ranks, ranks * events, format_bytes(bytes));

  monitor::EventStore store(run);
  measure("before", [] {});
  measure("first poll", [&] { store.poll(); });
  measure("poll, no new events", [&] { store.poll(); });
  for (int rank = 0; rank < ranks; ++rank) {
    std::ofstream(run.events(rank), std::ios::app) << step_line(rank, events + 1);
  }
  measure("poll, one step of every rank", [&] { store.poll(); });
  monitor::Snapshot snapshot;
  measure("snapshot, with stragglers", [&] { snapshot = store.snapshot(); });
  const auto loss = store.series("loss", 0, std::numeric_limits<double>::infinity(), 80);
  measure("screen", [&] {
    monitor::render_screen(snapshot, loss, {}, {.columns = 120, .rows = 50}, kStart);
  });
  size_t size = 0;
  measure("Prometheus page", [&] {
    size = monitor::prometheus_text({&snapshot, 1}, kStart).size();
  });
  fmt::print("size of the page: {}\n", format_bytes(size));
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::stoi(argv[1]) : 1000;
  const int64_t events = argc > 2 ? std::stoll(argv[2]) : 1000;
  if (argc > 3) {
    return lockstep::bench(ranks, events, argv[3]);
  }
  const lockstep::os::TemporaryDirectory scratch("watch-bench");
  return lockstep::bench(ranks, events, scratch.path());
}
