// SPDX-License-Identifier: Apache-2.0
// Advice about GPUs.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/report/advice_rules.h"
#include "launcher/report/gpu_list.h"

// How an idle GPU is explained. Utilization is the fraction of time in which a kernel ran, so it is
// idle whenever the host does not launch one:
//
//   idle >= 40 % ---+-- worker waits >= 25 % for data -----------> loader-bound
//                   |
//                   +-- worker keeps about one core busy --------> host-bound
//                   |
//                   +-- otherwise -------------------------------> gpu-idle
//
// A GPU without kernels and without memory is unused instead, which has other remedies.
namespace lockstep::report {
namespace {

using monitor::GpuTotals;
using Found = FoundGpu;

constexpr double kIdle = 0.4;     // minimum share of idle time to report
constexpr double kUnused = 0.01;  // utilization below which a GPU counts as unused
constexpr double kUnusedMemory = 0.02;
constexpr double kWaiting = 0.25;    // minimum share of a worker's time spent waiting for data
constexpr double kOneCoreLow = 0.8;  // busy cores of a worker with one running thread
constexpr double kOneCoreHigh = 1.3;
constexpr double kSlowedShare = 0.05;  // of the busy time
constexpr double kHot = 83;            // degrees Celsius
constexpr double kRoomy = 0.4;         // maximum memory use that leaves room for a larger batch

double memory_share(const GpuTotals& gpu) {
  const auto total = static_cast<double>(gpu.last.memory_total_bytes.value_or(0));
  return total > 0 ? static_cast<double>(gpu.peak_memory_bytes.value_or(0)) / total : 0;
}

bool is_used(const GpuTotals& gpu) {
  return gpu.utilisation.mean().value_or(0) >= kUnused || memory_share(gpu) >= kUnusedMemory;
}

// The share of idle time of a GPU that is used; nothing if it is below the threshold.
std::optional<double> idle_share(const GpuTotals& gpu) {
  const auto busy = gpu.utilisation.mean();
  return busy && is_used(gpu) && 1 - *busy >= kIdle ? std::optional(1 - *busy) : std::nullopt;
}

// The share of time that the workers of a GPU wait for data; the mean of all workers if it is
// unknown which workers use the GPU.
double data_share(const RunFacts& facts, const GpuTotals& gpu) {
  double sum = 0;
  int count = 0;
  for (const monitor::RankView& rank : facts.run.ranks) {
    const auto split = split_of(rank.totals);
    if (split && split->data && gpu.ranks.contains(rank.rank)) {
      sum += *split->data;
      ++count;
    }
  }
  return count > 0 ? sum / count : facts.split.mean.data.value_or(0);
}

// The mean number of busy cores per worker.
double mean_cores(const RunFacts& facts) {
  monitor::TimeMean all;
  for (const monitor::RankView& rank : facts.run.ranks) {
    all.sum += rank.totals.cores.sum;
    all.seconds += rank.totals.cores.seconds;
  }
  return all.mean().value_or(0);
}

// One busy core per worker is the sign of a single Python thread that launches kernels and never
// waits. Waiting for the GPU also keeps a core busy if the driver spins, but then the GPU is not
// idle.
bool is_one_core(double cores) {
  return cores >= kOneCoreLow && cores <= kOneCoreHigh;
}

// GPUs that are idle for another reason than waiting for data.
std::vector<Found> find_other_idle(const RunFacts& facts) {
  std::vector<Found> idle = find_gpus(facts, idle_share);
  std::erase_if(idle, [&](const Found& one) { return data_share(facts, *one.gpu) >= kWaiting; });
  return idle;
}

std::vector<std::string> loader_tries(const RunFacts& facts) {
  if (facts.is_trainer) {
    return {"more loader threads: --num-workers COUNT (auto: all cores of the worker)",
            "more cores for the loader: lockstep submit --cpus-per-task COUNT",
            "one file per split that is read sequentially: lockstep data pack"};
  }
  return {"more loader processes: DataLoader(num_workers=..., persistent_workers=True)",
          "more cores for the loader: lockstep submit --cpus-per-task COUNT",
          "data on a local disk, in few large files"};
}

// XID errors that are usually caused by the program: faults of its kernels and memory accesses.
// From NVIDIA's table of XID errors: 13 graphics engine exception, 31 memory page fault, 43 stopped
// processing, 45 preemptive cleanup.
bool is_of_program(int64_t xid) {
  constexpr std::array<int64_t, 4> kOfPrograms = {13, 31, 43, 45};
  return std::find(kOfPrograms.begin(), kOfPrograms.end(), xid) != kOfPrograms.end();
}

}  // namespace

std::optional<Advice> see_gpu_errors(const RunFacts& facts) {
  const std::vector<Found> found = find_gpus(facts, [](const GpuTotals& gpu) {
    return gpu.new_ecc_errors > 0 || gpu.xid ? std::optional(1.0) : std::nullopt;
  });
  if (found.empty()) {
    return std::nullopt;
  }
  std::vector<std::string> seen;
  seen.reserve(found.size());
  bool is_hardware = false;
  for (const Found& one : found) {
    const GpuTotals& gpu = *one.gpu;
    std::vector<std::string> faults;
    if (gpu.new_ecc_errors > 0) {
      faults.push_back(fmt::format("{} uncorrected ECC errors", gpu.new_ecc_errors));
    }
    if (gpu.xid) {
      faults.push_back(fmt::format("XID {}", *gpu.xid));
    }
    is_hardware = is_hardware || gpu.new_ecc_errors > 0 || (gpu.xid && !is_of_program(*gpu.xid));
    seen.push_back(fmt::format("{}: {}", one.name, join(faults, ", ")));
  }
  return Advice{
      .rule = {},
      .seen = join(seen, "; "),
      .means = is_hardware ? "the GPU, its memory or its links are failing"
                           : "the driver stopped a kernel, usually for an invalid memory access",
      .tries =
          is_hardware
              ? std::vector<std::string>{"report the host and the GPU index to your support",
                                         "exclude the node until then: --exclude HOST"}
              : std::vector<std::string>{"find the failing kernel: lockstep run --env "
                                         "CUDA_LAUNCH_BLOCKING=1",
                                         "if it is always this GPU, report it to your support"}};
}

// 83 degrees is close to the slowdown temperature of common GPUs. Below it, the reason is usually
// the power limit, which the user cannot see in the samples.
std::optional<Advice> see_throttling(const RunFacts& facts) {
  const std::vector<Found> found =
      find_gpus(facts, [](const GpuTotals& gpu) -> std::optional<double> {
        const bool is_enough = gpu.busy_seconds >= kMinSeconds;
        const double share = is_enough ? gpu.slowed_seconds / gpu.busy_seconds : 0;
        return share >= kSlowedShare ? std::optional(share) : std::nullopt;
      });
  if (found.empty()) {
    return std::nullopt;
  }
  double hottest = 0;
  for (const Found& one : found) {
    hottest = std::max(hottest, one.gpu->hottest.value_or(0));
  }
  return Advice{.rule = {},
                .seen = fmt::format("{} of its busy time, maximum temperature {:.0f} C",
                                    name_all(found, "below 80 % of its clock for"),
                                    hottest),
                .means = hottest >= kHot ? "too hot: the GPU reduces its clock to protect itself"
                                         : "not heat: a power limit, or another process on the GPU",
                .tries = {"find the reason: nvidia-smi -q -d PERFORMANCE on that node",
                          "report it to your support, and exclude the node: --exclude HOST"}};
}

std::optional<Advice> see_unused_gpus(const RunFacts& facts) {
  const std::vector<Found> unused = find_gpus(facts, [](const GpuTotals& gpu) {
    return gpu.utilisation.seconds > 0 && !is_used(gpu) ? std::optional(0.0) : std::nullopt;
  });
  if (unused.empty()) {
    return std::nullopt;
  }
  const int all = count_gpus(facts);
  std::vector<std::string> names;
  names.reserve(unused.size());
  for (const Found& one : unused) {
    names.push_back(one.name);
  }
  const bool is_none_used = static_cast<int>(unused.size()) == all;
  const std::string which =
      unused.size() > kMaxNamedGpus ? fmt::format("{} GPUs", unused.size()) : join(names, ", ");
  std::vector<std::string> tries;
  if (is_none_used) {
    tries = {"check that the program supports and selects CUDA: lockstep doctor",
             "a job without GPUs: lockstep submit --gpus-per-node 0"};
  } else {
    tries = {"one worker for each GPU: lockstep run --nproc-per-node gpu",
             "fewer GPUs: lockstep submit --gpus-per-node COUNT"};
  }
  return Advice{.rule = {},
                .seen = fmt::format("{} never used: {} for {}",
                                    which,
                                    plural(facts.run.world_size, "worker"),
                                    plural(all, "GPU")),
                .means = is_none_used ? "the program computes on the CPU"
                                      : "the job has GPUs that no worker uses",
                .tries = tries};
}

std::optional<Advice> see_loader_bound(const RunFacts& facts) {
  if (count_gpus(facts) == 0) {
    const double waiting = facts.split.mean.data.value_or(0);
    if (waiting < kWaiting) {
      return std::nullopt;
    }
    return Advice{.rule = {},
                  .seen = fmt::format("workers wait {} of the time for data", percent(waiting)),
                  .means = "loader bound: batches arrive later than they are needed",
                  .tries = loader_tries(facts)};
  }
  std::vector<Found> idle = find_gpus(facts, idle_share);
  std::erase_if(idle, [&](const Found& one) { return data_share(facts, *one.gpu) < kWaiting; });
  if (idle.empty()) {
    return std::nullopt;
  }
  double waiting = 0;
  for (const Found& one : idle) {
    waiting = std::max(waiting, data_share(facts, *one.gpu));
  }
  return Advice{.rule = {},
                .seen = fmt::format("{} of the time; workers wait up to {} for data",
                                    name_all(idle, "idle"),
                                    percent(waiting)),
                .means = "loader bound: the GPU waits for batches",
                .tries = loader_tries(facts)};
}

std::optional<Advice> see_host_bound(const RunFacts& facts) {
  const std::vector<Found> idle = find_other_idle(facts);
  const double cores = mean_cores(facts);
  if (idle.empty() || !is_one_core(cores)) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format(
          "{} of the time; a worker keeps {:.1f} cores busy", name_all(idle, "idle"), cores),
      .means = "host bound: one thread of the program cannot feed the GPU",
      .tries = facts.is_trainer
                   ? std::vector<std::string>{"more work per step: a larger --batch-size",
                                              "launch the whole step at once: --cuda-graph on"}
                   : std::vector<std::string>{
                         "more work per step: a larger batch",
                         "less Python per step: torch.compile, no .item() or print in each step",
                         "if this thread loads the data: DataLoader(num_workers=...)"}};
}

std::optional<Advice> see_idle_gpus(const RunFacts& facts) {
  const std::vector<Found> idle = find_other_idle(facts);
  if (idle.empty() || see_host_bound(facts)) {
    return std::nullopt;
  }
  return Advice{.rule = {},
                .seen = fmt::format("{} of the time; a worker keeps {:.1f} cores busy",
                                    name_all(idle, "idle"),
                                    mean_cores(facts)),
                .means = "the GPU waits for data, disks or other workers, or the kernels are small",
                .tries = {facts.is_trainer ? "more work per step: a larger --batch-size"
                                           : "more work per step: a larger batch",
                          "see what a worker is doing: py-spy dump on its node",
                          fmt::format("see when the GPU is idle: lockstep dashboard {}",
                                      quote_for_shell(facts.run.directory))}};
}

// All GPUs must have room: a larger batch applies to all workers.
std::optional<Advice> see_gpu_memory(const RunFacts& facts) {
  const std::vector<Found> used =
      find_gpus(facts, [](const GpuTotals& gpu) -> std::optional<double> {
        const bool is_known = gpu.peak_memory_bytes && gpu.last.memory_total_bytes.value_or(0) > 0;
        return is_known && is_used(gpu) ? std::optional(memory_share(gpu)) : std::nullopt;
      });
  const bool is_roomy =
      std::all_of(used.begin(), used.end(), [](const Found& one) { return one.value <= kRoomy; });
  if (used.empty() || !is_roomy) {
    return std::nullopt;
  }
  return Advice{.rule = {},
                .seen = fmt::format("{} of its memory", name_all(used, "used")),
                .means = "there is room for a larger batch, or a smaller GPU is sufficient",
                .tries = {facts.is_trainer ? "a larger --batch-size" : "a larger batch per worker",
                          "check loss and accuracy afterwards: the global batch affects training"}};
}

}  // namespace lockstep::report
