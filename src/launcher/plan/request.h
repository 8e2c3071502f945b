// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/hosts.h"
#include "common/cluster/launcher_task.h"
#include "common/cluster/slurm_env.h"
#include "common/os/environment.h"

namespace lockstep::plan {

// A value and its source: "command line", "PET_NNODES". Absent: not given.
struct OptionValue {
  std::string text;
  std::string source = "command line";
  std::string flag;  // the spelling of the user, if it is not the usual name: "--num_gpus"

  bool operator==(const OptionValue&) const = default;
};
using Option = std::optional<OptionValue>;

// The launcher whose command line is emulated: it determines some spellings and defaults.
enum class Dialect { Lockstep, Torchrun, TorchLaunch, Horovodrun, Deepspeed };

// The command to type for a dialect: "lockstep run", "torchrun".
std::string_view command_of(Dialect dialect);

// The options of the user as text. make_plan parses them, so that every front end rejects the same
// values with the same message.
struct Request {
  Dialect dialect = Dialect::Lockstep;
  std::vector<std::string> program;  // the program and its arguments, untouched
  bool is_module = false;            // -m: the program is a Python module
  bool is_no_python = false;         // --no-python: execute even a *.py
  bool is_run_path = false;          // --run-path: run under Python, regardless of its name

  // Sizes.
  Option nnodes;                             // N or MIN:MAX; --num_nodes of deepspeed
  Option nproc_per_node;                     // a number, cpu, gpu or auto; --num_gpus of deepspeed
  Option np;                                 // total number of workers; -np of horovodrun
  Option hosts;                              // -H of horovodrun: h1:4,h2:2
  Option hostfile;                           // path of the file
  std::optional<std::string> hostfile_text;  // contents, read by the front end
  Option include;                            // --include of deepspeed
  Option exclude;
  Option ssh_port;      // for the hosts of -H
  Option ssh_identity;  // private key for these hosts

  // Rendezvous.
  Option node_rank;
  Option master_addr;
  Option master_port;
  Option local_addr;
  bool is_standalone = false;
  Option rdzv_backend;
  Option rdzv_endpoint;
  Option rdzv_id;
  Option rdzv_conf;
  Option network_interfaces;  // the only interfaces to use, as in horovodrun
  Option start_timeout;       // maximum time to wait for all agents, in seconds
  Option start_method;        // as in torchrun: spawn

  // Supervision.
  Option max_restarts;
  Option monitor_interval;
  Option grace;    // seconds
  Option timeout;  // of the whole run: seconds, or HH:MM:SS
  Option run_dir;
  bool is_requeue = false;     // --requeue: requeue the Slurm job before its time limit
  bool is_no_requeue = false;  // --no-requeue: overrides --requeue
  Option requeue_signal;       // sent by Slurm before the time limit: USR1 or USR2
  Option max_requeues;
  Option progress_file;  // changes whenever the program saves its state

  // Workers.
  std::vector<OptionValue> env;   // NAME=VALUE
  std::vector<OptionValue> pass;  // -x NAME: copied from the environment of the launcher
  Option bind;                    // core, gpu or none
  Option role;
  bool is_use_env = false;            // torch.distributed.launch: no --local-rank argument
  bool is_no_local_rank = false;      // deepspeed: no --local_rank argument
  bool is_local_rank_passed = false;  // --pass-local-rank: pass the argument in every dialect
  bool is_local_rank_taken = false;   // the program declares the argument with argparse
  bool is_local_rank_dashed = false;  // the program accepts the spelling --local-rank only
  bool may_share_gpus = false;
  Option gpu_sharing;  // mps or time-slicing

  // Output.
  Option log_dir;
  Option redirects;
  Option tee;
  Option local_ranks_filter;
  Option output_filename;            // a directory, as in horovodrun
  std::vector<OptionValue> metrics;  // NAME=REGEX: numbers to extract from the output
  Option sample_every;               // seconds between two samples of each node; 0: none
};

// The environment of the command: this host and its variables.
struct HostEnvironment {
  std::string node = "localhost";
  std::string directory = "/";  // current directory
  int cores = 1;
  int gpus = 0;         // GPUs, or slices of GPUs in MIG mode
  std::string no_gpus;  // why a GPU in MIG mode cannot be used; empty: no such GPU
  std::optional<int> terminal_columns;
  std::string timestamp;     // 20240131-093000
  std::string short_id;      // distinguishes runs that start in the same second
  std::string command_time;  // seconds since the epoch
  os::Environment environment;
  bool is_nested = false;  // inside a worker of another lockstep run: the fields below are not set
  std::optional<cluster::LauncherTask> task;  // set by an outer launcher: torchrun, mpirun, PMIx
  std::optional<cluster::SlurmStep> step;
  std::optional<cluster::SlurmJob> job;
};

}  // namespace lockstep::plan
