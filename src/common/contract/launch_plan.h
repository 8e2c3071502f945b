// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/run_directory.h"

// The launch plan: what will run, as a plain value without processes, files or clocks. --dry-run
// prints it, the run directory stores it (plan.json), and the agents execute it.
namespace lockstep::contract {

// The kind of source of a value in the plan.
enum class ValueSource { Flag, Variable, Probe, Default };

struct Source {
  ValueSource kind = ValueSource::Default;
  std::string detail;  // "--grace", "OMP_NUM_THREADS", "free on this machine"

  bool operator==(const Source&) const = default;
};

// A value and its source.
template <typename T>
struct Sourced {
  T value{};
  Source source;

  bool operator==(const Sourced&) const = default;
};

using Variables = std::map<std::string, Sourced<std::string>>;

// Launch mode: how the agents of a run are started.
enum class LaunchMode {
  Local,  // local: one node, this machine
  Srun,   // in an allocation: this process is the leader and starts the agents with one srun
  Ssh,    // on named hosts: this process is the leader and starts the agents over ssh
  Peers,  // another launcher or the user starts one process per node; node 0 is the leader
  Task,   // another launcher starts one process per worker; this process becomes the worker
};

// How the number of workers on a node is determined.
enum class WorkerRule { Number, Cpu, Gpu, Auto };

// A node and its workers.
struct PlannedNode {
  std::string name;       // empty: unknown until its agent joins
  Sourced<int> workers;   // 0: counted on the node by worker_rule
  Variables variables;    // for the workers of this node only
  std::vector<int> gpus;  // device numbers for its workers; empty: all

  bool operator==(const PlannedNode&) const = default;
};

// Rendezvous of processes that another launcher or the user has started.
struct Rendezvous {
  std::string name;         // the same for all processes: "slurm-4711.0", "job1"
  std::string host;         // of the leader, if given; empty: node 0 publishes it in a file
  int port = 0;             // of the leader, if given; 0: any free port
  std::optional<int> node;  // node rank of this process; absent: in order of arrival
  // LaunchMode::Task only: the rank of this process.
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;

  bool operator==(const Rendezvous&) const = default;
};

enum class Bind { None, Core, Gpu };

// Streams of a worker as a bit set: 1 is stdout, 2 is stderr, as in torchrun.
struct StreamRule {
  int fallback = 0;             // for local ranks without an entry
  std::map<int, int> by_local;  // local rank -> bits

  bool operator==(const StreamRule&) const = default;
};

// Destinations of worker output in addition to the log in the run directory.
struct OutputRules {
  std::string log_dir;               // absolute; empty: no additional files
  StreamRule redirects;              // to files in log_dir instead of the console
  StreamRule tee;                    // to files in log_dir and to the console
  std::set<int> local_ranks_filter;  // only these appear on the console; empty: all
  std::string output_filename;       // absolute; horovodrun's DIR/rank.N/stdout; empty: none

  bool operator==(const OutputRules&) const = default;
};

// A number in the output of workers: the first group of `pattern` in a matching line.
struct Metric {
  std::string name;
  std::string pattern;

  bool operator==(const Metric&) const = default;
};

// A Slurm job that is requeued before its time limit; the run continues in the next allocation.
struct RequeueRules {
  std::string job;                  // in the format of scontrol: "17", "12_3"
  Sourced<int> signal;              // sent by Slurm before the time limit
  Sourced<int> maximum;             // maximum number of requeues; 0: no limit
  std::string progress_file;        // absolute; empty: only checkpoints show progress
  std::optional<int64_t> end_time;  // of the job, in seconds since the epoch; absent: unknown

  bool operator==(const RequeueRules&) const = default;
};

struct LaunchPlan {
  std::string run_id;
  Sourced<std::string> run_directory;  // absolute
  std::vector<std::string> command;    // of each worker
  int program_word = 0;                // index of the program in `command`: 1 after "python3"
  bool passes_local_rank = false;      // passes OPTION=N, as torch.distributed.launch does
  std::string local_rank_option = "--local_rank";
  Sourced<LaunchMode> mode;
  std::vector<PlannedNode> nodes;  // the maximum number of nodes
  Sourced<int> min_nodes;
  WorkerRule worker_rule = WorkerRule::Number;
  Rendezvous rendezvous;
  Sourced<std::string> master_addr;   // empty: the address in the chosen network
  Sourced<int> master_port;           // 0: a free port on node 0
  Sourced<std::string> interfaces;    // comma separated; only these are tried; empty: all
  Sourced<std::string> local_addr;    // address of this node for the others; empty: any that works
  Sourced<int> ssh_port;              // 0: from the ssh configuration
  Sourced<std::string> ssh_identity;  // absolute; empty: from the ssh configuration
  Sourced<double> grace_seconds;
  Sourced<double> timeout_seconds;  // of the whole run; 0: no limit
  Sourced<double> start_timeout_seconds;
  Sourced<double> last_call_seconds;  // wait for more nodes once the minimum has joined
  Sourced<int> max_restarts;
  std::optional<RequeueRules> requeue;  // absent: not requested
  int slurm_restarts = 0;               // how often Slurm has restarted this job
  Sourced<Bind> bind;
  Sourced<std::string> role;
  bool may_share_gpus = false;  // allows more workers than GPUs
  bool starts_mps = false;      // each agent starts NVIDIA's MPS for its workers
  OutputRules output;
  std::vector<Metric> metrics;           // to extract from the output
  Sourced<double> sample_every_seconds;  // interval between node samples; 0: no samples
  Variables variables;                   // for every worker, in addition to its rank variables
  std::vector<std::string> remarks;      // options that have no effect here, and why

  bool operator==(const LaunchPlan&) const = default;
};

// Conversion of a plan to and from plan.json, which docs/launch.md describes.
std::string to_json(const LaunchPlan& plan);

// The plan with "(hidden)" instead of the values of secret variables, for everything that is
// printed or stored: other users can read the run directory and the log of a job.
LaunchPlan without_secrets(LaunchPlan plan);

// Throws an Error (74) that names the missing or invalid field.
LaunchPlan parse_plan(std::string_view text);

// The plan of a run. Throws an Error (74) if there is none or it cannot be read.
LaunchPlan read_plan(const RunDirectory& run);

}  // namespace lockstep::contract
