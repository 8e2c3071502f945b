// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/run_directory.h"
#include "monitor/event_store.h"
#include "monitor/snapshot.h"

// What a report says of a run, as plain values.
namespace lockstep::report {

// What Slurm tells of the job; who asks it passes it on.
struct JobFacts {
  std::string state = {};  // "timed out"; empty: not asked, or not known
  bool has_timed_out = false;
  std::optional<double> limit_seconds = {};
  std::string why_not = {};  // Slurm was asked and told nothing

  bool operator==(const JobFacts&) const = default;
};

struct Ending {
  enum class Kind { Running, Done, Failed, Cancelled, Requeued, Lost, Unknown };

  Kind kind = Kind::Unknown;
  std::string sentence = {};              // "failed: rank 3 on node-a left with code 1"
  std::vector<std::string> details = {};  // what the launcher found, and what it proposed
  std::optional<int> exit_code = {};
  bool is_time_limit = false;     // of Slurm, or --timeout
  bool is_out_of_memory = false;  // of the node
  int failed_rank = -1;           // -1: none, or not known
  std::string advice = {};        // what the launcher proposed
  std::string bad_loss = {};      // "the loss is nan at step 7", where the worker died of it
};

// Shares of a worker's time, 0 to 1. Absent: not told.
struct Split {
  std::optional<double> data = {};
  std::optional<double> compute = {};  // with the exchange in it, where that is not told
  std::optional<double> exchange = {};
  std::optional<double> update = {};
  std::optional<double> checkpoint = {};
  std::optional<double> other = {};  // evaluation, agreement, what nobody told
};

// Who waited most.
struct Worst {
  int rank = 0;
  double share = 0;
};

struct SplitFacts {
  Split leader = {};  // rank 0
  Split mean = {};    // over all ranks
  std::optional<Worst> data = {};
  std::optional<Worst> exchange = {};
  int ranks = 0;  // that have told
};

struct Speed {
  std::optional<double> first_step_seconds = {};  // since the command was typed
  std::optional<double> steps_per_second = {};    // steady state: the median over the run
  std::optional<double> samples_per_second = {};  // the same
  std::optional<double> mean_per_second = {};     // samples over the whole run, all pauses in it
  std::optional<int64_t> samples = {};            // that were trained on, repeats counted
  bool is_from_output = false;                    // found in the output by --metric
};

struct Energy {
  double joules = 0;  // of all GPUs
  enum class Source { None, Counter, Power, Both };
  Source source = Source::None;
  std::optional<double> joules_per_sample = {};
};

struct SlowRank {
  int rank = 0;
  std::string host = {};
  int percent = 0;                   // of the median of all, over the whole run
  double share = 0;                  // of the time in which it was slow
  std::optional<double> since = {};  // without a break until the end; absent: it was not at the end
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
  double begin = 0;  // 0: not known
  double end = 0;    // or now
  Ending ending = {};
  JobFacts job = {};
  int requeues = 0;
  SplitFacts split = {};
  Speed speed = {};
  Energy energy = {};
  std::vector<SlowRank> slow = {};
  std::optional<Best> best_accuracy = {};
  std::optional<Best> best_loss = {};     // of evaluations
  double sampled_seconds = 0;             // the longest that a node was looked at
  bool is_trainer = false;                // workers report events: a program of lockstep's
  std::vector<std::string> missing = {};  // what cannot be told, and why

  double seconds() const { return begin > 0 && end > begin ? end - begin : 0; }
};

// All that the directory tells, read by `store`, which has been polled. `now` is the reader's
// clock.
RunFacts gather_facts(const contract::RunDirectory& run,
                      const monitor::EventStore& store,
                      const JobFacts& job,
                      double now);

// The shares of one worker's time; nothing where it has told nothing of it.
std::optional<Split> split_of(const monitor::RankTotals& totals);

// Over all hosts and GPUs, each as long as it was looked at. Absent: nothing told.
std::optional<double> gpu_utilisation(const RunFacts& facts);  // 0 to 1
std::optional<double> cpu_utilisation(const RunFacts& facts);  // of the granted cores, by workers
// The greatest over the nodes (GPUs), of what each was granted (has).
std::optional<double> memory_use(const RunFacts& facts);
std::optional<double> gpu_memory_use(const RunFacts& facts);

// "GPU 2 of node-a": of many nodes with the host.
std::string gpu_name(const RunFacts& facts, const std::string& host, const monitor::GpuTotals& gpu);

int count_gpus(const RunFacts& facts);

}  // namespace lockstep::report
