// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.h"

#include <fmt/format.h>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using plan::Dialect;
using plan::Request;
using plan::Wish;

// An option that has a value. `flag` is how messages spell it where that is not its usual name.
struct ValueOption {
  const char* names;
  Wish Request::*wish;
  const char* flag;
  const char* type;
  const char* otherwise;
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
       "what Slurm was asked for, else 1",
       "Workers on each node: a number, cpu (one per granted core), gpu (one per GPU) or auto (gpu "
       "where there is one, else cpu)"},
      {"--num-gpus",
       &Request::nproc_per_node,
       "--num_gpus",
       "COUNT",
       "",
       "The same, as deepspeed says it"},
      {"--num-proc",
       &Request::np,
       "-np",
       "COUNT",
       "",
       "Workers in all, shared among the nodes; also -np, as horovodrun says it"},
      {"--bind",
       &Request::bind,
       "",
       "KIND",
       "core inside a Slurm job, else none",
       "core: each worker keeps to its share of the granted cores; gpu: each sees one GPU; none"},
      {"--role", &Request::role, "", "NAME", "default", "What workers are told as ROLE_NAME"},
  };
  return kOptions;
}

const std::vector<ValueOption>& node_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--nnodes",
       &Request::nnodes,
       "",
       "N|MIN:MAX",
       "all of the job, else 1",
       "Nodes; with MIN:MAX at least MIN, and others join at the next attempt"},
      {"--num-nodes", &Request::nnodes, "--num_nodes", "N", "", "The same, as deepspeed says it"},
  };
  return kOptions;
}

// Names that differ between horovodrun and deepspeed.
std::vector<ValueOption> host_options(Dialect dialect) {
  const bool is_deepspeed = dialect == Dialect::Deepspeed;
  return {
      {is_deepspeed ? "--hosts" : "-H,--hosts",
       &Request::hosts,
       is_deepspeed ? "--hosts" : "-H",
       "HOSTS",
       "",
       "Start agents over ssh on these: host1:4,host2:4, or node[1-4]:4; the number is that of "
       "workers"},
      {is_deepspeed ? "-H,--hostfile" : "--hostfile",
       &Request::hostfile,
       "",
       "FILE",
       "",
       "The same from a file: a line 'host1 slots=4' for each, or 'host1:4'"},
      {is_deepspeed ? "-i,--include" : "--include",
       &Request::include,
       "",
       "HOSTS",
       "",
       "Only these hosts and GPUs: host1@host2:0,2"},
      {is_deepspeed ? "-e,--exclude" : "--exclude",
       &Request::exclude,
       "",
       "HOSTS",
       "",
       "All but these"},
      {"-p,--ssh-port", &Request::ssh_port, "", "PORT", "as ssh is set up", "Where hosts take ssh"},
      {is_deepspeed ? "--ssh-identity-file" : "-i,--ssh-identity-file",
       &Request::ssh_identity,
       "",
       "FILE",
       "as ssh is set up",
       "Key for ssh"},
  };
}

const std::vector<ValueOption>& meeting_options() {
  static const std::vector<ValueOption> kOptions = {
      {"--node-rank",
       &Request::node_rank,
       "",
       "N",
       "",
       "Which node this is, when each is started by hand with --nnodes and --master-addr"},
      {"--master-addr",
       &Request::master_addr,
       "",
       "HOST",
       "found",
       "Where rank 0 listens; by hand, where the nodes meet"},
      {"--master-port", &Request::master_port, "", "PORT", "a free one", "Its port"},
      {"--rdzv-endpoint",
       &Request::rdzv_endpoint,
       "",
       "HOST:PORT",
       "",
       "By hand: where the nodes meet, in the order in which they come"},
      {"--rdzv-id", &Request::rdzv_id, "", "NAME", "", "By hand: the name that all nodes give"},
      {"--rdzv-backend",
       &Request::rdzv_backend,
       "",
       "NAME",
       "c10d",
       "c10d or static; both mean that the nodes meet at the first of them"},
      {"--rdzv-conf",
       &Request::rdzv_conf,
       "",
       "KEY=VALUE,...",
       "",
       "join_timeout and last_call_timeout in seconds; torchrun's other keys are not needed"},
      {"--network-interfaces",
       &Request::network_interfaces,
       "",
       "NAMES",
       "all are tried",
       "The only interfaces that may be used: eth0,ib0"},
      {"--local-addr",
       &Request::local_addr,
       "",
       "ADDRESS",
       "any that works",
       "By which the other nodes shall reach this one"},
      {"--start-timeout",
       &Request::start_timeout,
       "",
       "SECONDS",
       "120, by hand 600",
       "Until when all nodes must have come"},
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
       "Where plan, logs and checkpoints of this run lie"},
      {"--grace",
       &Request::grace,
       "",
       "SECONDS",
       "30",
       "How long workers may take to leave after SIGTERM before they are killed"},
      {"--timeout",
       &Request::timeout,
       "",
       "TIME",
       "none",
       "Stop the run after SECONDS or HH:MM:SS"},
      {"--max-restarts",
       &Request::max_restarts,
       "",
       "COUNT",
       "0",
       "New attempts after a failure, each with the same ranks"},
      {"--monitor-interval",
       &Request::monitor_interval,
       "",
       "SECONDS",
       "",
       "torchrun's; not needed, as the kernel tells of every death"},
      {"--start-method",
       &Request::start_method,
       "",
       "NAME",
       "spawn",
       "torchrun's; there is spawn only"},
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
       "The signal of #SBATCH --signal=B:NAME@SECONDS: USR1 or USR2"},
      {"--max-requeues",
       &Request::max_requeues,
       "",
       "COUNT",
       "no limit",
       "How often the job may be put back"},
      {"--progress-file",
       &Request::progress_file,
       "",
       "PATH",
       "RUN/checkpoints alone",
       "A file or directory that changes whenever PROGRAM has saved something"},
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
       "Where --redirects and --tee put their files, beside the logs of the run"},
      {"-r,--redirects",
       &Request::redirects,
       "",
       "STREAMS",
       "0",
       "To files and not to the console: 1 stdout, 2 stderr, 3 both, or by local rank 0:3,1:2"},
      {"-t,--tee", &Request::tee, "", "STREAMS", "0", "To files as well as to the console"},
      {"--local-ranks-filter",
       &Request::local_ranks_filter,
       "",
       "RANKS",
       "all",
       "Show only these on the console: 0,1"},
      {"--output-filename",
       &Request::output_filename,
       "",
       "DIR",
       "",
       "Also keep each worker's output in DIR/rank.N/stdout and stderr"},
      {"--sample-every",
       &Request::sample_every,
       "",
       "SECONDS",
       "1",
       "How often each node's CPU, memory, network and GPUs are looked at; 0: never"},
  };
  return kOptions;
}

const std::vector<FlagOption>& program_flags() {
  static const std::vector<FlagOption> kFlags = {
      {"-m,--module", &Request::is_module, "PROGRAM is a Python module"},
      {"--no-python", &Request::is_no_python, "Execute PROGRAM even if it is called *.py"},
      {"--run-path", &Request::is_run_path, "Run PROGRAM under python3, whatever it is called"},
      {"--pass-local-rank",
       &Request::is_local_rank_passed,
       "Add --local_rank=N behind PROGRAM, as torch.distributed.launch does; --local-rank where "
       "PROGRAM says so"},
      {"--use-env",
       &Request::is_use_env,
       "Do not, as torch.distributed.launch says it; LOCAL_RANK tells"},
      {"--no-local-rank", &Request::is_no_local_rank, "The same, as deepspeed says it"},
  };
  return kFlags;
}

// Two spellings of one wish may not contradict each other.
void set(Wish& wish, const std::string& text, const std::string& flag, const std::string& usual) {
  if (wish && wish->text != text) {
    throw Error(ExitCode::Usage, fmt::format("cannot take both {} and {}", usual, flag))
        .fact("asked",
              fmt::format("{} {}", wish->flag.empty() ? usual : wish->flag, wish->text),
              "command line")
        .fact("asked", fmt::format("{} {}", flag, text), "command line")
        .hint("one of the two");
  }
  wish = plan::Asked{.text = text, .source = "command line", .flag = flag == usual ? "" : flag};
}

std::string first_long_name(std::string_view names) {
  return std::string(names.substr(names.find("--")));
}

class Declarer {
 public:
  Declarer(CLI::App& app, Wishes& wishes) : app_(app), wishes_(wishes) {}

  void add(const std::vector<ValueOption>& options, const char* group) {
    for (const ValueOption& option : options) {
      Wish& wish = wishes_.request.*option.wish;
      const std::string flag =
          *option.flag == '\0' ? first_long_name(option.names) : std::string(option.flag);
      const std::string usual = usual_name(option);
      app_.add_option_function<std::string>(
              option.names,
              [&wish, flag, usual](const std::string& text) { set(wish, text, flag, usual); },
              option.text)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->type_name(option.type)
          ->default_str(option.otherwise)
          ->group(group);
    }
  }

  void add(const std::vector<FlagOption>& flags, const char* group) {
    for (const FlagOption& flag : flags) {
      app_.add_flag(flag.names, wishes_.request.*flag.flag, flag.text)->group(group);
    }
  }

  void add_list(const char* name,
                std::vector<plan::Asked>& wishes,
                const char* type,
                const char* text,
                const char* group = "Workers") {
    app_.add_option_function<std::vector<std::string>>(
            name,
            [&wishes](const std::vector<std::string>& texts) {
              for (const std::string& one : texts) {
                wishes.push_back({.text = one, .source = "command line", .flag = ""});
              }
            },
            text)
        ->type_name(type)
        ->allow_extra_args(false)
        ->group(group);
  }

 private:
  // What make_plan calls it when nobody says otherwise.
  static std::string usual_name(const ValueOption& option) {
    if (option.wish == &Request::nproc_per_node) {
      return "--nproc-per-node";
    }
    if (option.wish == &Request::nnodes) {
      return "--nnodes";
    }
    return *option.flag == '\0' ? first_long_name(option.names) : std::string(option.flag);
  }

  CLI::App& app_;
  Wishes& wishes_;
};

// What shows the run while it runs.
void add_views(CLI::App& app, Wishes& wishes) {
  app.add_flag("--dashboard",
               wishes.has_dashboard,
               "Show the run in a browser, live, as lockstep dashboard does, while it runs")
      ->group("Output");
  constexpr const char* kUsualPlace = "RUN/tensorboard";
  app.add_option_function<std::string>(
         "--tensorboard",
         [&wishes](const std::string& text) {
           wishes.tensorboard = text == kUsualPlace ? "" : text;
         },
         "Write the run's curves for TensorBoard, live, as lockstep export --follow does")
      ->expected(0, 1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("DIR")
      ->default_str(kUsualPlace)
      ->group("Output");
}

}  // namespace

void add_run_options(CLI::App& app, Wishes& wishes) {
  Request& request = wishes.request;
  Declarer declare(app, wishes);
  declare.add(worker_options(), "Workers");
  declare.add_list(
      "--env", request.env, "NAME=VALUE", "A variable for every worker; may be given again");
  declare.add_list(
      "-x", request.pass, "NAME[=VALUE]", "The same; without a value, the one that is set here");
  app.add_flag("--share-gpus", request.may_share_gpus, "Allow more workers than there are GPUs")
      ->group("Workers");
  declare.add(node_options(), "Nodes");
  declare.add(host_options(request.dialect), "Nodes");
  app.add_flag("--standalone", request.is_standalone, "This machine alone, whatever Slurm says")
      ->group("Nodes");
  declare.add(meeting_options(), "Meeting");
  declare.add(program_flags(), "Program");
  declare.add(supervision_options(), "Supervision");
  app.add_flag(
         "--requeue",
         request.is_requeue,
         "In a Slurm batch job: when its time is nearly over, let the workers save, and put "
         "the job back into the queue, where it goes on; not after two turns without progress")
      ->group("Time limit");
  app.add_flag("--no-requeue", request.is_no_requeue, "Do not, whatever else is said")
      ->group("Time limit");
  declare.add(requeue_options(), "Time limit");
  declare.add(output_options(), "Output");
  declare.add_list("--metric",
                   request.metrics,
                   "NAME=REGEX",
                   "A number that workers print, to be kept as NAME: the first group of REGEX in "
                   "each line that matches; may be given again",
                   "Output");
  app.add_flag("--verbose", wishes.is_verbose, "Show the plan before the start")->group("Output");
  add_views(app, wishes);

  app.add_flag(
         "--dry-run", wishes.is_dry, "Print the plan with the source of every value; start nothing")
      ->group("Help");
  app.add_flag("--json", wishes.is_json, "With --dry-run: the plan as plan.json has it")
      ->group("Help");
  app.add_option_function<std::string>(
         "--simulate",
         [&wishes](const std::string& text) {
           wishes.simulate = plan::Asked{.text = text, .source = "command line", .flag = ""};
         },
         "Bring up so many simulated nodes and workers, and tell how long it took")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("NODESxWORKERS")
      ->group("Help");
}

}  // namespace lockstep::cli
