// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/run_directory.h"
#include "launcher/monitor/event_store.h"
#include "launcher/monitor/snapshot.h"

// The content of a report as plain values.
namespace lockstep::report {

// Slurm's data about the job, which the caller provides.
struct JobFacts {
  std::string state = {};  // "timed out"; empty: not queried, or unknown
  bool has_timed_out = false;
  std::optional<double> limit_seconds = {};
  std::string why_not = {};  // why Slurm did not answer

  bool operator==(const JobFacts&) const = default;
};

struct Ending {
  enum class Kind { Running, Done, Failed, Cancelled, Requeued, Lost, Unknown };

  Kind kind = Kind::Unknown;
  std::string sentence = {};              // "failed: rank 3 on node-a left with code 1"
  std::vector<std::string> details = {};  // findings of the launcher
  std::optional<int> exit_code = {};
  bool is_time_limit = false;     // stopped by the time limit of Slurm, or by --timeout
  bool is_out_of_memory = false;  // killed because the memory of the node was exhausted
  int failed_rank = -1;           // -1: none, or unknown
  std::string advice = {};        // hint of the launcher
  std::string bad_loss = {};      // "the loss is nan at step 7", if the worker ended for that
};

// Shares of a worker's time, 0 to 1. Absent: not reported.
struct Split {
  std::optional<double> data = {};
  std::optional<double> compute = {};  // includes the exchange if that is not reported
  std::optional<double> exchange = {};
  std::optional<double> update = {};
  std::optional<double> checkpoint = {};
  std::optional<double> other = {};  // evaluation, step synchronization, unreported time
};

// The rank with the largest share.
struct Worst {
  int rank = 0;
  double share = 0;
};

struct SplitFacts {
  Split leader = {};  // rank 0
  Split mean = {};    // over all ranks
  std::optional<Worst> data = {};
  std::optional<Worst> exchange = {};
  int ranks = 0;  // number of ranks that report
};

struct Speed {
  std::optional<double> first_step_seconds = {};  // since the command was started
  std::optional<double> steps_per_second = {};    // steady state: median over the run
  std::optional<double> samples_per_second = {};  // steady state: median over the run
  std::optional<double> mean_per_second = {};     // samples over the whole run, including pauses
  std::optional<int64_t> samples = {};            // processed in total, including repeated steps
  bool is_from_output = false;                    // found in the output by --metric
};

struct Energy {
  double joules = 0;  // of all GPUs
  enum class Source { None, Counter, Power, Both, Slices };
  Source source = Source::None;
  std::optional<double> joules_per_sample = {};
};

struct SlowRank {
  int rank = 0;
  std::string host = {};
  int percent = 0;                   // own step time relative to the median, over the whole run
  double share = 0;                  // of the run during which it was slow
  std::optional<double> since = {};  // continuously slow until the end; absent: not at the end
};

struct Best {
  double value = 0;
  int64_t step = 0;
};

struct RunFacts {
  std::string name = {};  // of the directory
  monitor::Snapshot run = {};
  std::vector<std::string> hosts = {};  // "node-a: 4 workers"
  int nodes = 0;
  double begin = 0;  // 0: unknown
  double end = 0;    // the current time if the run has not ended
  Ending ending = {};
  JobFacts job = {};
  int requeues = 0;
  SplitFacts split = {};
  Speed speed = {};
  Energy energy = {};
  std::vector<SlowRank> slow = {};
  std::optional<Best> best_accuracy = {};
  std::optional<Best> best_loss = {};     // of evaluations
  double sampled_seconds = 0;             // maximum sampled time of a node
  bool is_trainer = false;                // workers report events: the program uses the Trainer
  std::vector<std::string> missing = {};  // unavailable data, with the reasons

  double seconds() const { return begin > 0 && end > begin ? end - begin : 0; }
};

// Collects the facts from the run directory and from `store`, which must have been polled. `now` is
// the reader's clock.
RunFacts gather_facts(const contract::RunDirectory& run,
                      const monitor::EventStore& store,
                      const JobFacts& job,
                      double now);

// The shares of one worker's time; nothing if it has not reported any.
std::optional<Split> split_of(const monitor::RankTotals& totals);

// The mean over all hosts and GPUs, weighted by their sampled time. Absent: no samples.
std::optional<double> gpu_utilisation(const RunFacts& facts);  // 0 to 1
std::optional<double> cpu_utilisation(const RunFacts& facts);  // of the granted cores, by workers
// The maximum over all nodes (GPUs), relative to the limit of the node (memory of the GPU).
std::optional<double> memory_use(const RunFacts& facts);
std::optional<double> gpu_memory_use(const RunFacts& facts);

// "GPU 2 of node-a"; without the host if there is only one node.
std::string gpu_name(const RunFacts& facts, const std::string& host, const monitor::GpuTotals& gpu);

int count_gpus(const RunFacts& facts);

}  // namespace lockstep::report
