// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/run/run_options.h"

#include <fmt/format.h>
#include <string>
#include <vector>

#include "lockstep/error.h"

// The options of lockstep run as tables: names, target, text. Values are stored as texts with their
// source and are checked in make_plan(), where the messages can compare them with the allocation.
//
// Several names can have the same target (--nproc-per-node and --num-gpus). set() accepts both if
// their values agree. `flag` is the spelling that the user has typed, for messages.
namespace lockstep::cli {
namespace {

using plan::Dialect;
using plan::Option;
using plan::Request;

// An option with a value. `flag` is its spelling in messages, if that differs from the first name.
struct ValueOption {
  const char* names;
  Option Request::*target;
  const char* flag;
  const char* type;
  const char* default_value;
  const char* text;
};

struct FlagOption {
  const char* names;
  bool Request::*flag;
  const char* text;
};

const std::vector<ValueOption>& worker_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--nproc-per-node",
       &Request::nproc_per_node,
       "",
       "COUNT",
       "as requested from Slurm, otherwise 1",
       "Workers per node: a number, cpu (one per allocated core), gpu (one per GPU) or auto (gpu "
       "if there are GPUs, otherwise cpu)"},
      {"--num-gpus",
       &Request::nproc_per_node,
       "--num_gpus",
       "COUNT",
       "",
       "Alias of --nproc-per-node (deepspeed)"},
      {"--num-proc",
       &Request::np,
       "-np",
       "COUNT",
       "",
       "Total number of workers on all nodes; -np is an alias (horovodrun)"},
      {"--bind",
       &Request::bind,
       "",
       "KIND",
       "core inside a Slurm job, otherwise none",
       "CPU and GPU binding of each worker: core (its share of the allocated cores), gpu (one GPU "
       "and the cores near it) or none"},
      {"--role",
       &Request::role,
       "",
       "NAME",
       "default",
       "Value of the variable ROLE_NAME in every worker"},
  };
  return kOptions;
}

const std::vector<ValueOption>& node_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--nnodes",
       &Request::nnodes,
       "",
       "N|MIN:MAX",
       "all nodes of the Slurm job, otherwise 1",
       "Number of nodes; with MIN:MAX at least MIN, and more can join at the next restart"},
      {"--num-nodes", &Request::nnodes, "--num_nodes", "N", "", "Alias of --nnodes (deepspeed)"},
  };
  return kOptions;
}

// Options whose short names differ between horovodrun and deepspeed.
//
//   -H   horovodrun: --hosts             deepspeed: --hostfile
//   -i   horovodrun: --ssh-identity-file deepspeed: --include
std::vector<ValueOption> host_options(Dialect dialect) {
  const bool is_deepspeed = dialect == Dialect::Deepspeed;
  return {
      {is_deepspeed ? "--hosts" : "-H,--hosts",
       &Request::hosts,
       is_deepspeed ? "--hosts" : "-H",
       "HOSTS",
       "",
       "Hosts to use over ssh, each with its number of workers: host1:4,host2:4 or node[1-4]:4"},
      {is_deepspeed ? "-H,--hostfile" : "--hostfile",
       &Request::hostfile,
       "",
       "FILE",
       "",
       "File with the hosts to use over ssh, one per line: 'host1 slots=4' or 'host1:4'"},
      {is_deepspeed ? "-i,--include" : "--include",
       &Request::include,
       "",
       "HOSTS",
       "",
       "Use only these hosts and GPUs; host1@host2:0,2 means host1 and GPUs 0 and 2 of host2"},
      {is_deepspeed ? "-e,--exclude" : "--exclude",
       &Request::exclude,
       "",
       "HOSTS",
       "",
       "Do not use these hosts and GPUs; host1@host2:0,2 means host1 and GPUs 0 and 2 of host2"},
      {"-p,--ssh-port", &Request::ssh_port, "", "PORT", "as configured for ssh", "Port for ssh"},
      {is_deepspeed ? "--ssh-identity-file" : "-i,--ssh-identity-file",
       &Request::ssh_identity,
       "",
       "FILE",
       "as configured for ssh",
       "Private key for ssh"},
  };
}

constexpr const char* kNodeRankText =
    "Rank of this node, if this command is started manually on every node; requires --nnodes "
    "and --master-addr";
constexpr const char* kEndpointText =
    "Rendezvous address for manually started nodes; without --node-rank, node ranks follow the "
    "order of arrival";
constexpr const char* kRdzvConfText =
    "Rendezvous timeouts in seconds: join_timeout=600,last_call_timeout=30; other keys of "
    "torchrun are not needed";

const std::vector<ValueOption>& rendezvous_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--node-rank", &Request::node_rank, "", "N", "", kNodeRankText},
      {"--master-addr",
       &Request::master_addr,
       "",
       "HOST",
       "detected",
       "Address at which rank 0 listens; for manually started nodes also the rendezvous address"},
      {"--master-port", &Request::master_port, "", "PORT", "a free port", "Port for --master-addr"},
      {"--rdzv-endpoint", &Request::rdzv_endpoint, "", "HOST:PORT", "", kEndpointText},
      {"--rdzv-id",
       &Request::rdzv_id,
       "",
       "NAME",
       "",
       "Name of the run; must be the same on all manually started nodes"},
      {"--rdzv-backend",
       &Request::rdzv_backend,
       "",
       "NAME",
       "c10d",
       "Rendezvous backend: c10d or static; with both, all nodes connect to the first node"},
      {"--rdzv-conf", &Request::rdzv_conf, "", "KEY=VALUE,...", "", kRdzvConfText},
      {"--network-interfaces",
       &Request::network_interfaces,
       "",
       "NAMES",
       "try all",
       "Use only these network interfaces: eth0,ib0"},
      {"--local-addr",
       &Request::local_addr,
       "",
       "ADDRESS",
       "any that works",
       "Address at which other nodes reach this node"},
      {"--start-timeout",
       &Request::start_timeout,
       "",
       "SECONDS",
       "120; 600 for manually started nodes",
       "Maximum time to wait for all nodes, in seconds"},
  };
  return kOptions;
}

const std::vector<ValueOption>& supervision_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--run-dir",
       &Request::run_dir,
       "",
       "DIR",
       "runs/PROGRAM-TIME-ID",
       "Run directory: plan, logs and checkpoints of the run"},
      {"--grace",
       &Request::grace,
       "",
       "SECONDS",
       "30",
       "Grace period: time between SIGTERM and SIGKILL when workers are stopped, in seconds"},
      {"--timeout",
       &Request::timeout,
       "",
       "TIME",
       "none",
       "Stop the run after this time: SECONDS or HH:MM:SS"},
      {"--max-restarts",
       &Request::max_restarts,
       "",
       "COUNT",
       "0",
       "Maximum number of restarts after failures, each with the same ranks"},
      {"--monitor-interval",
       &Request::monitor_interval,
       "",
       "SECONDS",
       "",
       "Accepted for compatibility with torchrun; ignored"},
      {"--start-method",
       &Request::start_method,
       "",
       "NAME",
       "spawn",
       "Accepted for compatibility with torchrun; only spawn is supported"},
  };
  return kOptions;
}

const std::vector<ValueOption>& requeue_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--requeue-signal",
       &Request::requeue_signal,
       "",
       "NAME",
       "USR1",
       "Signal that Slurm sends before the time limit: USR1 or USR2, as in #SBATCH "
       "--signal=B:NAME@SECONDS"},
      {"--max-requeues",
       &Request::max_requeues,
       "",
       "COUNT",
       "no limit",
       "Maximum number of requeues"},
      {"--progress-file",
       &Request::progress_file,
       "",
       "PATH",
       "RUN/checkpoints only",
       "File or directory that changes whenever PROGRAM saves; counts as progress for --requeue"},
  };
  return kOptions;
}

const std::vector<ValueOption>& output_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--log-dir",
       &Request::log_dir,
       "",
       "DIR",
       "RUN/streams",
       "Directory for the files of --redirects and --tee, in addition to RUN/logs"},
      {"-r,--redirects",
       &Request::redirects,
       "",
       "STREAMS",
       "0",
       "Write output of workers to files instead of the console: 0 (none), 1 (stdout), 2 (stderr), "
       "3 (both) or by local rank, 0:3,1:2"},
      {"-t,--tee",
       &Request::tee,
       "",
       "STREAMS",
       "0",
       "Write output of workers to files and to the console: 0 (none), 1 (stdout), 2 (stderr), 3 "
       "(both) or by local rank, 0:3,1:2"},
      {"--local-ranks-filter",
       &Request::local_ranks_filter,
       "",
       "RANKS",
       "all",
       "Show only output of these local ranks on the console: 0,1"},
      {"--output-filename",
       &Request::output_filename,
       "",
       "DIR",
       "",
       "Also write output of each worker to DIR/rank.N/stdout and DIR/rank.N/stderr"},
      {"--sample-every",
       &Request::sample_every,
       "",
       "SECONDS",
       "1",
       "Interval for measuring CPU, memory, network and GPU use of each node, in seconds; 0 "
       "disables it"},
  };
  return kOptions;
}

const std::vector<FlagOption>& program_flags() {
  static const std::vector<FlagOption> kFlags = {
      {"-m,--module", &Request::is_module, "Run PROGRAM as a Python module, like python3 -m"},
      {"--no-python", &Request::is_no_python, "Execute PROGRAM directly even if it is named *.py"},
      {"--run-path", &Request::is_run_path, "Run PROGRAM under python3, regardless of its name"},
      {"--pass-local-rank",
       &Request::is_local_rank_passed,
       "Pass --local_rank=N to PROGRAM, as torch.distributed.launch does; --local-rank=N if "
       "PROGRAM declares only that name"},
      {"--use-env",
       &Request::is_use_env,
       "Do not pass --local_rank; PROGRAM reads LOCAL_RANK (torch.distributed.launch)"},
      {"--no-local-rank", &Request::is_no_local_rank, "Alias of --use-env (deepspeed)"},
  };
  return kFlags;
}

// Two names of one option must not have different values. The same name given twice is not a
// contradiction: CLI11 passes the last value only (TakeLast), as argparse does.
void set(Option& target,
         const std::string& text,
         const std::string& flag,
         const std::string& usual) {
  if (target && target->text != text) {
    throw Error(ExitCode::Usage, fmt::format("{} and {} contradict each other", usual, flag))
        .fact("requested",
              fmt::format("{} {}", target->flag.empty() ? usual : target->flag, target->text),
              "command line")
        .fact("requested", fmt::format("{} {}", flag, text), "command line")
        .hint("use one of the two");
  }
  target =
      plan::OptionValue{.text = text, .source = "command line", .flag = flag == usual ? "" : flag};
}

std::string first_long_name(std::string_view names) {
  return std::string(names.substr(names.find("--")));
}

class Declarer {
 public:
  Declarer(CLI::App& app, RunOptions& options) : app_(app), options_(options) {}

  void add(const std::vector<ValueOption>& options, const char* group) {
    for (const ValueOption& option : options) {
      Option& target = options_.request.*option.target;
      const std::string flag =
          *option.flag == '\0' ? first_long_name(option.names) : std::string(option.flag);
      const std::string usual = usual_name(option);
      app_.add_option_function<std::string>(
              option.names,
              [&target, flag, usual](const std::string& text) { set(target, text, flag, usual); },
              option.text)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->type_name(option.type)
          ->default_str(option.default_value)
          ->group(group);
    }
  }

  void add(const std::vector<FlagOption>& flags, const char* group) {
    for (const FlagOption& flag : flags) {
      app_.add_flag(flag.names, options_.request.*flag.flag, flag.text)->group(group);
    }
  }

  // allow_extra_args(false): one value per occurrence; the option is repeated for more.
  void add_list(const char* name,
                std::vector<plan::OptionValue>& values,
                const char* type,
                const char* text,
                const char* group = "Workers") {
    app_.add_option_function<std::vector<std::string>>(
            name,
            [&values](const std::vector<std::string>& texts) {
              for (const std::string& one : texts) {
                values.push_back({.text = one, .source = "command line", .flag = ""});
              }
            },
            text)
        ->type_name(type)
        ->allow_extra_args(false)
        ->group(group);
  }

 private:
  // The name in messages of make_plan, if the command line does not use another one.
  static std::string usual_name(const ValueOption& option) {
    if (option.target == &Request::nproc_per_node) {
      return "--nproc-per-node";
    }
    if (option.target == &Request::nnodes) {
      return "--nnodes";
    }
    return *option.flag == '\0' ? first_long_name(option.names) : std::string(option.flag);
  }

  CLI::App& app_;
  RunOptions& options_;
};

// Options that show the run while it is running. --tensorboard has an optional value. Without one,
// the reader of the command line passes the default text, RUN/tensorboard, which stands for the run
// directory and is not a path.
void add_views(CLI::App& app, RunOptions& options) {
  app.add_flag("--dashboard",
               options.has_dashboard,
               "Serve a live web page of the run, like lockstep dashboard")
      ->group("Output");
  constexpr const char* kDefaultDirectory = "RUN/tensorboard";
  app.add_option_function<std::string>(
         "--tensorboard",
         [&options](const std::string& text) {
           options.tensorboard = text == kDefaultDirectory ? "" : text;
         },
         "Write live metrics for TensorBoard to DIR")
      ->expected(0, 1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("DIR")
      ->default_str(kDefaultDirectory)
      ->group("Output");
}

// --share-gpus alone is time slicing: the driver lets the workers take turns.
void add_gpu_sharing(CLI::App& app, Request& request) {
  app.add_option_function<std::string>(
         "--share-gpus",
         [&request](const std::string& text) {
           request.may_share_gpus = true;
           request.gpu_sharing =
               plan::OptionValue{.text = text, .source = "command line", .flag = ""};
         },
         "Allow more workers than GPUs on a node; they take turns on a GPU, or with mps use it at "
         "the same time (NVIDIA's Multi-Process Service)")
      ->expected(0, 1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("mps")
      ->default_str("time-slicing")
      ->group("Workers");
}

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  Request& request = options.request;
  Declarer declare(app, options);
  declare.add(worker_options(), "Workers");
  declare.add_list("--env",
                   request.env,
                   "NAME=VALUE",
                   "Set an environment variable for every worker; can be repeated");
  declare.add_list("-x",
                   request.pass,
                   "NAME[=VALUE]",
                   "Set an environment variable for every worker; NAME alone passes on its current "
                   "value; can be repeated");
  add_gpu_sharing(app, request);
  declare.add(node_options(), "Nodes");
  declare.add(host_options(request.dialect), "Nodes");
  app.add_flag("--standalone", request.is_standalone, "Use only this machine, even in a Slurm job")
      ->group("Nodes");
  declare.add(rendezvous_options(), "Rendezvous");
  declare.add(program_flags(), "Program");
  declare.add(supervision_options(), "Supervision");
  app.add_flag(
         "--requeue",
         request.is_requeue,
         "In a Slurm batch job: shortly before the time limit, let the workers save a checkpoint "
         "and requeue the job, which then resumes; ends the job after two allocations without "
         "progress")
      ->group("Time limit");
  app.add_flag("--no-requeue", request.is_no_requeue, "Disable --requeue; overrides it")
      ->group("Time limit");
  declare.add(requeue_options(), "Time limit");
  declare.add(output_options(), "Output");
  declare.add_list("--metric",
                   request.metrics,
                   "NAME=REGEX",
                   "Record a number from the output of the workers as metric NAME: the first group "
                   "of REGEX in each matching line; can be repeated",
                   "Output");
  app.add_flag("--verbose", options.is_verbose, "Print the launch plan before the start")
      ->group("Output");
  add_views(app, options);

  app.add_flag("--dry-run",
               options.is_dry,
               "Print the launch plan with the source of every value; start nothing")
      ->group("Diagnostics");
  app.add_flag("--json", options.is_json, "Print the plan of --dry-run as JSON, like plan.json")
      ->group("Diagnostics");
  app.add_option_function<std::string>(
         "--simulate",
         [&options](const std::string& text) {
           options.simulate = plan::OptionValue{.text = text, .source = "command line", .flag = ""};
         },
         "Measure the startup time with simulated nodes and simulated workers on each; runs no "
         "program")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("NODESxWORKERS")
      ->group("Diagnostics");
}

}  // namespace lockstep::cli
