// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "os/environment.h"
#include "plan/request.h"
#include "plan/source.h"

// What shall run, as a value: no process, no file, no clock. It is what --dry-run prints, what the
// run directory keeps, and what agents follow.
namespace lockstep::plan {

using Variables = std::map<std::string, Sourced<std::string>>;

// How the agents of a run come to be there.
enum class Way {
  Here,   // one node, this machine
  Srun,   // in an allocation: this process leads and starts the agents with one srun
  Ssh,    // on named hosts: this process leads and starts the agents over ssh
  Peers,  // somebody starts one of us on every node (srun, mpirun, by hand); node 0 leads
  Task,   // somebody starts one of us per worker: this process becomes the worker
};

// How a node counts its workers.
enum class WorkerRule { Number, Cpu, Gpu, Auto };

// A machine and the workers on it.
struct Node {
  std::string name;       // empty: not known before its agent joins
  Sourced<int> workers;   // 0: counted on the node by the plan's rule
  Variables variables;    // for the workers of this node only
  std::vector<int> gpus;  // the device numbers that its workers may use; empty: all

  bool operator==(const Node&) const = default;
};

// How processes find each other that nobody of ours has started.
struct Meeting {
  std::string name;         // the same for all of them: "slurm-4711.0", "job1"
  std::string host;         // of the leader, by hand; empty: node 0, told through a file
  int port = 0;             // of the leader, by hand; 0: a free one
  std::optional<int> node;  // which node this process is; absent: in the order of arrival
  // Way::Task only: this process among its node's.
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;

  bool operator==(const Meeting&) const = default;
};

enum class Bind { None, Core, Gpu };

// Which streams of a worker go where: bit 1 is stdout, bit 2 stderr, as torchrun counts them.
struct StreamRule {
  int otherwise = 0;            // for local ranks that are not named
  std::map<int, int> by_local;  // local rank -> bits

  bool operator==(const StreamRule&) const = default;
};

// What becomes of the workers' output, beside the log that the run directory always keeps.
struct OutputRules {
  std::string log_dir;               // absolute; empty: no further files
  StreamRule redirects;              // to files of log_dir, and not to the console
  StreamRule tee;                    // to files of log_dir as well as to the console
  std::set<int> local_ranks_filter;  // only these on the console; empty: all
  std::string output_filename;       // absolute; horovodrun's DIR/rank.N/stdout; empty: none

  bool operator==(const OutputRules&) const = default;
};

// A number that workers print: the first group of `pattern`, where a line matches.
struct Metric {
  std::string name;
  std::string pattern;

  bool operator==(const Metric&) const = default;
};

// A Slurm job that is put back into the queue when its time is over, and goes on there.
struct RequeueRules {
  std::string job;                  // as scontrol takes it: "17", "12_3"
  Sourced<int> signal;              // by which Slurm tells of the time limit
  Sourced<int> most;                // how often it may be put back; 0: no limit
  std::string progress_file;        // absolute; empty: only checkpoints show progress
  std::optional<int64_t> end_time;  // of the job, in seconds since the epoch; absent: not told

  bool operator==(const RequeueRules&) const = default;
};

struct LaunchPlan {
  std::string run_id;
  Sourced<std::string> run_directory;  // absolute
  std::vector<std::string> command;    // what each worker executes
  int program_word = 0;                // which of its words is the program: 1 after "python3"
  bool passes_local_rank = false;      // adds OPTION=N behind it, as torch.distributed.launch does
  std::string local_rank_option = "--local_rank";
  Sourced<Way> way;
  std::vector<Node> nodes;  // as many as there may be
  Sourced<int> min_nodes;
  WorkerRule worker_rule = WorkerRule::Number;
  Meeting meeting;
  Sourced<std::string> master_addr;   // empty: the address on which the nodes reach each other
  Sourced<int> master_port;           // 0: a free one on node 0
  Sourced<std::string> interfaces;    // comma separated: the only ones to try; empty: all
  Sourced<std::string> local_addr;    // by which this node is to be reached; empty: any that works
  Sourced<int> ssh_port;              // 0: what ssh is set up for
  Sourced<std::string> ssh_identity;  // absolute; empty: what ssh is set up for
  Sourced<double> grace_seconds;
  Sourced<double> timeout_seconds;  // of the whole run; 0: none
  Sourced<double> start_timeout_seconds;
  Sourced<double> last_call_seconds;  // how long enough nodes wait for more
  Sourced<int> max_restarts;
  std::optional<RequeueRules> requeue;  // absent: not asked
  int slurm_restarts = 0;               // how often Slurm has started this job again
  Sourced<Bind> bind;
  Sourced<std::string> role;
  bool may_share_gpus = false;  // more workers than GPUs were asked for
  OutputRules output;
  std::vector<Metric> metrics;           // to be found in the output
  Sourced<double> sample_every_seconds;  // how often agents look at their nodes; 0: never
  Variables variables;                   // for every worker, beside those that tell its place
  std::vector<std::string> remarks;      // what was asked and is not needed here, and why

  bool operator==(const LaunchPlan&) const = default;
};

// Throws an Error (64) that quotes what cannot be done.
LaunchPlan make_plan(const Request& request, const Surroundings& here);

// What --dry-run and messages call it: "on this machine", "one srun on all nodes".
std::string_view describe(Way way);

// Workers in all, of the nodes whose number is known.
int known_workers(const LaunchPlan& plan);

// The plan as a table for people, with the source of every value.
std::string describe(const LaunchPlan& plan);

}  // namespace lockstep::plan
