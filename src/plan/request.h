// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/slurm_env.h"
#include "cluster/task_place.h"
#include "os/environment.h"

namespace lockstep::plan {

// A text and who said it: "command line", "PET_NNODES". Absent means: not asked.
struct Asked {
  std::string text;
  std::string source = "command line";
  std::string flag;  // as it is spelt where that is not the usual name: "--num_gpus"

  bool operator==(const Asked&) const = default;
};
using Wish = std::optional<Asked>;

// Whose command line was typed: it decides what a few spellings mean and what is the default.
enum class Dialect { Lockstep, Torchrun, TorchLaunch, Horovodrun, Deepspeed };

// What one types to be understood so: "lockstep run", "torchrun".
std::string_view command_of(Dialect dialect);

// What the user asked for, in the user's own words: make_plan reads them, so that every front end
// refuses the same things with the same sentence.
struct Request {
  Dialect dialect = Dialect::Lockstep;
  std::vector<std::string> program;  // the program and its arguments, untouched
  bool is_module = false;            // -m: the program is a Python module
  bool is_no_python = false;         // --no-python: execute even a *.py
  bool is_run_path = false;          // --run-path: under Python, whatever it is called

  // Sizes.
  Wish nnodes;                               // N or MIN:MAX; deepspeed's --num_nodes
  Wish nproc_per_node;                       // a number, cpu, gpu or auto; deepspeed's --num_gpus
  Wish np;                                   // workers in all, horovodrun's -np
  Wish hosts;                                // horovodrun's -H: h1:4,h2:2
  Wish hostfile;                             // the path of the file
  std::optional<std::string> hostfile_text;  // what the front end has read there
  Wish include;                              // deepspeed's
  Wish exclude;
  Wish ssh_port;      // of -H's hosts
  Wish ssh_identity;  // the file with the key for them

  // Meeting.
  Wish node_rank;
  Wish master_addr;
  Wish master_port;
  Wish local_addr;
  bool is_standalone = false;
  Wish rdzv_backend;
  Wish rdzv_endpoint;
  Wish rdzv_id;
  Wish rdzv_conf;
  Wish network_interfaces;  // the only ones that may be used, horovodrun's
  Wish start_timeout;       // seconds until all agents must have come
  Wish start_method;        // torchrun's: spawn

  // Supervision.
  Wish max_restarts;
  Wish monitor_interval;
  Wish grace;    // seconds
  Wish timeout;  // of the whole run: seconds, or HH:MM:SS
  Wish run_dir;
  bool is_requeue = false;     // --requeue: put the Slurm job back when its time is over
  bool is_no_requeue = false;  // --no-requeue: stands above it
  Wish requeue_signal;         // how Slurm tells of the time limit: USR1 or USR2
  Wish max_requeues;
  Wish progress_file;  // changes when the program has saved something

  // Workers.
  std::vector<Asked> env;   // NAME=VALUE
  std::vector<Asked> pass;  // -x NAME: taken from the launcher's own environment
  Wish bind;                // core, gpu or none
  Wish role;
  bool is_use_env = false;            // torch.distributed.launch: no --local-rank argument
  bool is_no_local_rank = false;      // deepspeed: the same
  bool is_local_rank_passed = false;  // --pass-local-rank: the argument in every dialect
  bool is_local_rank_taken = false;   // the program declares the argument to argparse
  bool is_local_rank_dashed = false;  // the program spells it --local-rank, and only so
  bool may_share_gpus = false;

  // Output.
  Wish log_dir;
  Wish redirects;
  Wish tee;
  Wish local_ranks_filter;
  Wish output_filename;        // horovodrun's: a directory
  std::vector<Asked> metrics;  // NAME=REGEX: numbers to find in it
  Wish sample_every;           // seconds between two looks at each node; 0: none
};

// What was found on this machine when the command was typed.
struct Surroundings {
  std::string node = "localhost";
  std::string directory = "/";  // the current one
  int cores = 1;
  int gpus = 0;
  std::optional<int> terminal_columns;
  std::string timestamp;     // 20240131-093000
  std::string short_id;      // what makes two runs of one second differ
  std::string command_time;  // seconds since the epoch
  os::Environment environment;
  bool is_nested = false;  // inside a worker of another run of lockstep: nothing below is set
  std::optional<cluster::TaskPlace> task;  // an outer launcher's: torchrun, mpirun, PMIx
  std::optional<cluster::SlurmStep> step;
  std::optional<cluster::SlurmJob> job;
};

}  // namespace lockstep::plan
