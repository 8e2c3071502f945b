// SPDX-License-Identifier: Apache-2.0
// Advice about cores, memory, networks, checkpoints and slow ranks.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/text.h"
#include "report/advice_rules.h"

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
constexpr int64_t kLeastMemory = 8 * kGiB;  // less is not worth a word
constexpr double kMemoryRoom = 1.3;         // to ask for, times what was used
constexpr double kFullCores = 0.9;
constexpr double kIdleCores = 0.4;
constexpr double kForeign = 0.3;   // of the granted cores, busy for others
constexpr double kCoreRoom = 1.5;  // to ask for, times what was used
constexpr int kLeastSpared = 2;    // cores

// The host of which `value` is greatest; nullptr: none has any.
template <typename Value>
const HostTotals* find_most(const RunFacts& facts, Value value) {
  const HostTotals* most = nullptr;
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const HostTotals& host : node.hosts) {
      if (value(host) >= 0 && (most == nullptr || value(host) > value(*most))) {
        most = &host;
      }
    }
  }
  return most;
}

// Of its limit; -1: not told.
double memory_share(const HostTotals& host) {
  return host.memory_limit_bytes > 0 ? static_cast<double>(host.peak_memory_bytes) /
                                           static_cast<double>(host.memory_limit_bytes)
                                     : -1;
}

// Cores that its workers kept busy, of those granted; -1: not told.
double core_share(const HostTotals& host) {
  const auto busy = host.worker_cores.mean();
  return busy && host.granted > 0 ? *busy / host.granted : -1;
}

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

std::optional<Advice> see_exchange(const RunFacts& facts) {
  const double share = facts.split.mean.exchange.value_or(0);
  if (share < kExchange) {
    return std::nullopt;
  }
  std::vector<std::string> tries =
      facts.is_trainer
          ? std::vector<std::string>{"more work between exchanges: a larger --batch-size, "
                                     "--accumulate COUNT",
                                     "smaller gradients on the way: --compression bf16"}
          : std::vector<std::string>{"more work between exchanges: a larger batch, gradients "
                                     "accumulated over some steps"};
  if (facts.nodes > 1) {
    tries.emplace_back(
        "which network is used, and how fast it is: lockstep network, lockstep doctor");
    tries.emplace_back("another one: lockstep run --network-interfaces NAMES");
  }
  std::string seen =
      fmt::format("{} of the time goes into exchange and waiting for others", percent(share));
  if (facts.split.exchange && facts.split.ranks > 1) {
    seen += fmt::format(
        ", {} on rank {}", percent(facts.split.exchange->share), facts.split.exchange->rank);
  }
  return Advice{.rule = {},
                .seen = seen,
                .means = facts.slow.empty()
                             ? "the exchange of gradients is not hidden behind computing"
                             : "others wait for the slow rank, or the exchange is not hidden",
                .tries = tries};
}

std::optional<Advice> see_slow_rank(const RunFacts& facts) {
  const auto slow = std::find_if(facts.slow.begin(), facts.slow.end(), [](const SlowRank& one) {
    return one.percent >= kSlowPercent && one.share >= kSlowShare;
  });
  if (slow == facts.slow.end()) {
    return std::nullopt;
  }
  std::vector<std::string> tries;
  if (facts.nodes > 1 && !slow->host.empty()) {
    tries = {
        fmt::format("without it: --exclude={} of lockstep generate-slurm or sbatch", slow->host),
        fmt::format("what is wrong with it: lockstep doctor on {}", slow->host)};
  } else {
    tries = {"what is wrong here: lockstep doctor",
             "a core and a GPU of its own for each worker: lockstep run --bind core or gpu"};
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("rank {}{} takes {} % of the others' time for a step, in {} of the run",
                          slow->rank,
                          slow->host.empty() ? "" : " on " + slow->host,
                          slow->percent,
                          percent(slow->share)),
      .means = facts.nodes > 1 ? "the node is suspect: all others wait for it at every step"
                               : "its cores or its GPU are slower, or shared: all others wait",
      .tries = tries};
}

std::optional<Advice> see_checkpoint_stalls(const RunFacts& facts) {
  const double share = facts.split.leader.checkpoint.value_or(0);
  if (share < kStalls) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("training stood still {} of the time for {} checkpoint{}",
                          percent(share),
                          facts.run.checkpoints,
                          facts.run.checkpoints == 1 ? "" : "s"),
      .means = "checkpoints come too often, or their disk is slow",
      .tries = facts.is_trainer
                   ? std::vector<std::string>{"less often: --checkpoint-every STEPS",
                                              "beside training, as it is without "
                                              "--no-checkpoint-async",
                                              "to a faster disk: lockstep run --run-dir DIR"}
                   : std::vector<std::string>{"less often, or beside training"}};
}

std::optional<Advice> see_full_memory(const RunFacts& facts) {
  const HostTotals* host = find_most(facts, memory_share);
  if (host == nullptr || memory_share(*host) < kFullMemory) {
    return std::nullopt;
  }
  const auto wanted = in_gib(kMemoryRoom * static_cast<double>(host->peak_memory_bytes));
  return Advice{
      .rule = {},
      .seen = fmt::format("workers on {} had {} of {}, {}",
                          host->host,
                          bytes_of(host->peak_memory_bytes),
                          bytes_of(host->memory_limit_bytes),
                          percent(memory_share(*host))),
      .means = "a little more, and the kernel kills a worker",
      .tries = {fmt::format("more memory: --memory {}G of lockstep generate-slurm", wanted),
                "fewer workers on each node: lockstep run --nproc-per-node COUNT"}};
}

// Only in a job: nobody else waits for the memory of a machine of one's own.
std::optional<Advice> see_unused_memory(const RunFacts& facts) {
  const HostTotals* host = find_most(facts, memory_share);
  if (facts.run.job.empty() || host == nullptr || memory_share(*host) > kEmptyMemory ||
      host->memory_limit_bytes < kLeastMemory) {
    return std::nullopt;
  }
  const auto wanted =
      std::max<int64_t>(1, in_gib(kMemoryRoom * static_cast<double>(host->peak_memory_bytes)));
  return Advice{
      .rule = {},
      .seen = fmt::format("{} of {} memory used at most on any node, {}",
                          bytes_of(host->peak_memory_bytes),
                          bytes_of(host->memory_limit_bytes),
                          percent(memory_share(*host))),
      .means = "the job asked for more memory than it needs, and may wait longer in the queue",
      .tries = {fmt::format("--memory {}G of lockstep generate-slurm", wanted)}};
}

// Without a GPU, full cores are what one wants.
std::optional<Advice> see_full_cores(const RunFacts& facts) {
  const HostTotals* host = find_most(facts, core_share);
  if (count_gpus(facts) == 0 || host == nullptr || core_share(*host) < kFullCores) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("workers keep {:.1f} of {} granted cores of {} busy",
                          *host->worker_cores.mean(),
                          host->granted,
                          host->host),
      .means = "loading and launching may wait for cores, and the GPUs for them",
      .tries = {"more cores: --cpus-per-task of lockstep generate-slurm",
                facts.is_trainer ? "less work for them: lockstep data pack"
                                 : "less work for them: data that is decoded beforehand"}};
}

std::optional<Advice> see_foreign_load(const RunFacts& facts) {
  const HostTotals* host = find_most(facts, foreign_share);
  if (host == nullptr || foreign_share(*host) < kForeign ||
      host->cores.mean().value_or(0) < kFullCores * host->granted) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("{:.1f} of {} granted cores of {} are busy, {:.1f} of them for workers",
                          *host->cores.mean(),
                          host->granted,
                          host->host,
                          *host->worker_cores.mean()),
      .means = "somebody else computes on the same cores",
      .tries = {facts.run.job.empty() ? "a quieter time, or another machine"
                                      : "whole nodes: --exclusive of lockstep generate-slurm",
                fmt::format("who it is: top on {}", host->host)}};
}

// Only in a job, as for memory.
std::optional<Advice> see_idle_cores(const RunFacts& facts) {
  const HostTotals* host = find_most(facts, core_share);
  if (facts.run.job.empty() || host == nullptr || core_share(*host) > kIdleCores) {
    return std::nullopt;
  }
  const double busy = *host->worker_cores.mean();
  const int workers = std::max(1, facts.run.world_size / std::max(1, facts.nodes));
  const int wanted = std::max(workers, static_cast<int>(std::ceil(kCoreRoom * busy)));
  if (host->granted - wanted < kLeastSpared) {
    return std::nullopt;
  }
  return Advice{
      .rule = {},
      .seen = fmt::format("workers keep {:.1f} of {} granted cores busy on the busiest node, {}",
                          busy,
                          host->granted,
                          percent(core_share(*host))),
      .means = "the job asked for more cores than it needs, and may wait longer in the queue",
      .tries = {fmt::format("--cpus-per-task {} of lockstep generate-slurm (a task for each node)",
                            wanted),
                facts.is_trainer ? "or let them load data: --num-workers COUNT"
                                 : "or let them load data: DataLoader(num_workers=...)"}};
}

}  // namespace lockstep::report
