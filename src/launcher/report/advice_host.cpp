// SPDX-License-Identifier: Apache-2.0
// Advice about cores, memory, networks, checkpoints and slow ranks.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/report/advice_rules.h"

namespace lockstep::report {
namespace {

using monitor::HostTotals;

constexpr double kExchange = 0.25;   // of the time
constexpr double kStalls = 0.05;     // of the time
constexpr int kSlowPercent = 110;    // of the median
constexpr double kSlowShare = 0.8;   // of the time
constexpr double kFullMemory = 0.9;  // of the limit
constexpr double kEmptyMemory = 0.3;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kMinMemory = 8 * kGiB;  // smaller limits are not reported
constexpr double kMemoryRoom = 1.3;       // recommended limit relative to the peak
constexpr double kFullCores = 0.9;
constexpr double kIdleCores = 0.4;
constexpr double kForeign = 0.3;    // of the granted cores, used by other processes
constexpr double kCoreRoom = 1.5;   // recommended cores relative to the busy ones
constexpr int kMinCoresToSave = 2;  // minimum number of cores to save

// The host with the largest `value`; nullptr if it is negative (unknown) for all hosts. The result
// is the worst host for limits (memory full, cores full) and the busiest host for savings: a job
// can request less only if its busiest node would still fit.
template <typename Value>
const HostTotals* find_maximum(const RunFacts& facts, Value value) {
  const HostTotals* maximum = nullptr;
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const HostTotals& host : node.hosts) {
      if (value(host) >= 0 && (maximum == nullptr || value(host) > value(*maximum))) {
        maximum = &host;
      }
    }
  }
  return maximum;
}

// Peak memory relative to the limit; -1: unknown.
double memory_share(const HostTotals& host) {
  return host.memory_limit_bytes > 0 ? static_cast<double>(host.peak_memory_bytes) /
                                           static_cast<double>(host.memory_limit_bytes)
                                     : -1;
}

// Cores kept busy by the workers, relative to those granted; -1: unknown.
double core_share(const HostTotals& host) {
  const auto busy = host.worker_cores.mean();
  return busy && host.granted > 0 ? *busy / host.granted : -1;
}

// HostTotals::cores counts all processes on the granted cores, worker_cores only the workers. The
// difference includes the agents and the kernel, hence the high threshold kForeign.
double foreign_share(const HostTotals& host) {
  const auto all = host.cores.mean();
  return all && host.granted > 0 ? (*all - host.worker_cores.mean().value_or(0)) / host.granted
                                 : -1;
}

int64_t in_gib(double bytes) {
  return static_cast<int64_t>(std::ceil(bytes / static_cast<double>(kGiB)));
}

std::string bytes_of(int64_t bytes) {
  return format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}

}  // namespace

// Exposed communication of a rank is waiting plus transfer. If one rank is slow, all others show a
// large exchange time although the network is idle, so the meaning depends on stragglers.
std::optional<Advice> see_exchange(const RunFacts& facts) {
  const double share = facts.split.mean.exchange.value_or(0);
  if (share < kExchange) {
    return std::nullopt;
  }
  std::vector<std::string> tries =
      facts.is_trainer
          ? std::vector<std::string>{"more work between exchanges: a larger --batch-size, "
                                     "--accumulate COUNT",
                                     "less data to send: --compression bf16"}
          : std::vector<std::string>{"more work between exchanges: a larger batch, gradient "
                                     "accumulation"};
  if (facts.nodes > 1) {
    tries.emplace_back(
        "check which network is used and how fast it is: lockstep network, lockstep doctor");
    tries.emplace_back("another network: lockstep run --network-interfaces NAMES");
  }
  std::string seen =
      fmt::format("{} of the time is spent on exchange and waiting for others", percent(share));
  if (facts.split.exchange && facts.split.ranks > 1) {
    seen += fmt::format(
        ", {} on rank {}", percent(facts.split.exchange->share), facts.split.exchange->rank);
  }
  return Advice{.rule = {},
                .seen = seen,
                .means = facts.slow.empty()
                             ? "the gradient exchange is not hidden behind computation"
                             : "ranks wait for the straggler, or the exchange is not hidden",
                .tries = tries};
}

// Only a rank that is slow during most of the run suggests a faulty node. A rank that is slow at
// times (checkpoints, other users) would be excluded in vain.
std::optional<Advice> see_slow_rank(const RunFacts& facts) {
  const auto slow = std::find_if(facts.slow.begin(), facts.slow.end(), [](const SlowRank& one) {
    return one.percent >= kSlowPercent && one.share >= kSlowShare;
  });
  if (slow == facts.slow.end()) {
    return std::nullopt;
  }
  std::vector<std::string> tries;
  if (facts.nodes > 1 && !slow->host.empty()) {
    tries = {fmt::format("exclude the node: lockstep submit --exclude={0}, sbatch --exclude={0}",
                         slow->host),
             fmt::format("check the node: lockstep doctor on {}", slow->host)};
  } else {
    tries = {"check the node: lockstep doctor",
             "separate cores or GPUs for each worker: lockstep run --bind core, --bind gpu"};
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("rank {}{} takes {} % of the median step time, during {} of the run",
                          slow->rank,
                          slow->host.empty() ? "" : " on " + slow->host,
                          slow->percent,
                          percent(slow->share)),
      .means = facts.nodes > 1 ? "the node may be faulty: all other ranks wait for it at every step"
                               : "its cores or its GPU are slower or shared: all other ranks wait",
      .tries = tries};
}

std::optional<Advice> see_checkpoint_stalls(const RunFacts& facts) {
  const double share = facts.split.leader.checkpoint.value_or(0);
  if (share < kStalls) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("training was blocked {} of the time by {}",
                          percent(share),
                          plural(facts.run.checkpoints, "checkpoint")),
      .means = "checkpoints are too frequent, or the disk is slow",
      .tries = facts.is_trainer
                   ? std::vector<std::string>{"fewer checkpoints: --checkpoint-every STEPS",
                                              "save in the background: remove "
                                              "--no-checkpoint-async",
                                              "a faster disk: lockstep run --run-dir DIR"}
                   : std::vector<std::string>{"save less often, or in the background"}};
}

// The peak is the maximum of samples, seconds apart. The true peak is higher, so the warning starts
// well below the limit.
std::optional<Advice> see_full_memory(const RunFacts& facts) {
  const HostTotals* host = find_maximum(facts, memory_share);
  if (host == nullptr || memory_share(*host) < kFullMemory) {
    return std::nullopt;
  }
  const auto wanted = in_gib(kMemoryRoom * static_cast<double>(host->peak_memory_bytes));
  return Advice{.rule = {},
                .seen = fmt::format("workers on {} used {} of {} memory, {}",
                                    host->host,
                                    bytes_of(host->peak_memory_bytes),
                                    bytes_of(host->memory_limit_bytes),
                                    percent(memory_share(*host))),
                .means = "if the limit is exceeded, the kernel kills a worker",
                .tries = {fmt::format("more memory: lockstep submit --memory {}G", wanted),
                          "fewer workers on each node: lockstep run --nproc-per-node COUNT"}};
}

// Only for jobs: outside of a job, unused memory does not keep other users waiting.
std::optional<Advice> see_unused_memory(const RunFacts& facts) {
  const HostTotals* host = find_maximum(facts, memory_share);
  if (facts.run.job.empty() || host == nullptr || memory_share(*host) > kEmptyMemory ||
      host->memory_limit_bytes < kMinMemory) {
    return std::nullopt;
  }
  const auto wanted =
      std::max<int64_t>(1, in_gib(kMemoryRoom * static_cast<double>(host->peak_memory_bytes)));
  return Advice{
      .rule = {},
      .seen = fmt::format("peak memory on any node {} of {}, {}",
                          bytes_of(host->peak_memory_bytes),
                          bytes_of(host->memory_limit_bytes),
                          percent(memory_share(*host))),
      .means = "the job requests more memory than it needs, and may wait longer in the queue",
      .tries = {fmt::format("less memory: lockstep submit --memory {}G", wanted)}};
}

// Only with GPUs: without them, the cores should be fully used.
std::optional<Advice> see_full_cores(const RunFacts& facts) {
  const HostTotals* host = find_maximum(facts, core_share);
  if (count_gpus(facts) == 0 || host == nullptr || core_share(*host) < kFullCores) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("workers keep {:.1f} of {} granted cores on {} busy",
                          *host->worker_cores.mean(),
                          host->granted,
                          host->host),
      .means = "data loading and kernel launches may wait for cores, and the GPUs for both",
      .tries = {"more cores: lockstep submit --cpus-per-task COUNT",
                facts.is_trainer ? "less work for the cores: lockstep data pack"
                                 : "less work for the cores: data that is decoded in advance"}};
}

std::optional<Advice> see_foreign_load(const RunFacts& facts) {
  const HostTotals* host = find_maximum(facts, foreign_share);
  if (host == nullptr || foreign_share(*host) < kForeign ||
      host->cores.mean().value_or(0) < kFullCores * host->granted) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("{:.1f} of {} granted cores on {} are busy, {:.1f} of them with workers",
                          *host->cores.mean(),
                          host->granted,
                          host->host,
                          *host->worker_cores.mean()),
      .means = "other processes use the same cores",
      .tries = {facts.run.job.empty() ? "another time, or another machine"
                                      : "whole nodes: lockstep submit --exclusive",
                fmt::format("find these processes: top on {}", host->host)}};
}

// Only for jobs, as for memory.
// At least one core per worker remains. Savings of less than kMinCoresToSave cores are not worth a
// change of the job.
std::optional<Advice> see_idle_cores(const RunFacts& facts) {
  const HostTotals* host = find_maximum(facts, core_share);
  if (facts.run.job.empty() || host == nullptr || core_share(*host) > kIdleCores) {
    return std::nullopt;
  }
  const double busy = *host->worker_cores.mean();
  const int workers = std::max(1, facts.run.world_size / std::max(1, facts.nodes));
  const int wanted = std::max(workers, static_cast<int>(std::ceil(kCoreRoom * busy)));
  if (host->granted - wanted < kMinCoresToSave) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("workers keep {:.1f} of {} granted cores busy on the busiest node, {}",
                          busy,
                          host->granted,
                          percent(core_share(*host))),
      .means = "the job requests more cores than it needs, and may wait longer in the queue",
      .tries = {fmt::format("fewer cores: lockstep submit --cpus-per-task {} (one task per node)",
                            wanted),
                facts.is_trainer ? "use them to load data: --num-workers COUNT"
                                 : "use them to load data: DataLoader(num_workers=...)"}};
}

}  // namespace lockstep::report
