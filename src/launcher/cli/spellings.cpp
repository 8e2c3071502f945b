// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/spellings.h"

#include <algorithm>
#include <array>

// Tables of options of other launchers, by what lockstep does with them:
//
//   kAliases       accepted: another name of an own option
//   kForVariables  accepted: sets a HOROVOD_ variable of the workers (horovodrun does the same)
//   kForeign       rejected, with the reason and an alternative
//
// Names have `-`; the reader has already replaced `_`.
namespace lockstep::cli {
namespace {

struct Alias {
  std::string_view subcommand;
  std::string_view name;
  std::string_view meant;
};

// Names with one hyphen and several letters (-np, -ns) cannot be declared in CLI11.
constexpr auto kAliases = std::to_array<Alias>({
    {"run", "-np", "--num-proc"},
    {"run", "--np", "--num-proc"},
    {"run", "-hostfile", "--hostfile"},
    {"run", "--host", "--hosts"},
    {"run", "--num-accelerators", "--num-gpus"},
    {"run", "--network-interface", "--network-interfaces"},
    {"submit", "-ns", "--no-save-script"},
    {"submit", "-nj", "--no-submit-job"},
    {"submit", "-ps", "--py-spy"},
    {"submit", "-pr", "--profiling-sampling-rate"},
    {"submit", "--dist-strat", "--distributed-strategy"},
    {"submit", "--pre-exec-cmd", "--pre-exec-command"},
});

constexpr std::string_view kTorchrun = "torchrun";
constexpr std::string_view kHorovodrun = "horovodrun";
constexpr std::string_view kDeepspeed = "deepspeed";
constexpr std::string_view kElastic = "elastic runs add and remove whole nodes";
constexpr std::string_view kFound = "features are detected when a run starts";
constexpr std::string_view kOneWay = "lockstep has its own control plane";

// Rejected instead of ignored, so that a script does not lose an option silently.
constexpr std::array<Foreign, 36> kForeign = {
    Foreign{"--shutdown-timeout", kTorchrun, "use --grace instead", "--grace SECONDS"},
    Foreign{"--virtual-local-rank", kTorchrun, "local ranks are not remapped", "--bind gpu"},
    Foreign{
        "--numa-binding", kTorchrun, "workers are bound to cores, not NUMA nodes", "--bind core"},
    Foreign{"--logs-specs", kTorchrun, "lockstep has no plug-ins", "--log-dir DIR --tee 3"},
    Foreign{"--event-log-handler", kTorchrun, "lockstep has no plug-ins", "read RUN/events"},
    Foreign{"--signals-to-handle",
            kTorchrun,
            "all termination signals are handled",
            "drop it: SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are handled"},
    Foreign{"--min-np", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--max-np", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--min-num-proc", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--max-num-proc", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--host-discovery-script", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--slots-per-host", kHorovodrun, kElastic, "--nproc-per-node COUNT"},
    Foreign{"--reset-limit", kHorovodrun, "use --max-restarts instead", "--max-restarts COUNT"},
    Foreign{"--mpi", kHorovodrun, "the rendezvous uses Gloo", "mpirun -np 4 lockstep run PROGRAM"},
    Foreign{
        "--use-mpi", kHorovodrun, "the rendezvous uses Gloo", "mpirun -np 4 lockstep run PROGRAM"},
    Foreign{"--mpi-args",
            kHorovodrun,
            "lockstep does not start mpirun",
            "mpirun ARGS lockstep run PROGRAM"},
    Foreign{"--binding-args", kHorovodrun, "lockstep does not start mpirun", "--bind core"},
    Foreign{"--blacklist-cooldown-range", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--jsrun", kHorovodrun, kOneWay, "jsrun ARGS lockstep run PROGRAM"},
    Foreign{"--check-build", kHorovodrun, kFound, "lockstep doctor"},
    Foreign{"-cb", kHorovodrun, kFound, "lockstep doctor"},
    Foreign{"--disable-cache", kHorovodrun, "nothing is cached", "drop it"},
    Foreign{"--config-file", kHorovodrun, "options are read from the command line only", "drop it"},
    Foreign{"--prefix-timestamp", kHorovodrun, "output lines begin with the rank", "drop it"},
    Foreign{"--launcher", kDeepspeed, kOneWay, "drop it: Slurm jobs use srun, others ssh"},
    Foreign{"--launcher-args", kDeepspeed, kOneWay, "drop it"},
    Foreign{"--force-multi", kDeepspeed, "the number of nodes is known", "drop it"},
    Foreign{"--no-ssh", kDeepspeed, "use --node-rank instead", "--node-rank N on each node"},
    Foreign{"--no-ssh-check", kDeepspeed, "ssh is not tested beforehand", "drop it"},
    Foreign{"--elastic-training", kDeepspeed, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--enable-each-rank-log",
            kDeepspeed,
            "use --log-dir and --tee instead",
            "--log-dir DIR --tee 3"},
    Foreign{"--autotuning", kDeepspeed, "lockstep does not tune ds_config.json", "drop it"},
    Foreign{"--bind-core-list", kDeepspeed, "workers share the cores equally", "--bind core"},
    Foreign{"--bind-cores-to-rank", kDeepspeed, "use --bind core instead", "--bind core"},
    Foreign{"--save-pid", kDeepspeed, "runs are identified by their directory", "--run-dir DIR"},
    Foreign{"--venv-script", kDeepspeed, "agents inherit the environment", "activate it first"},
};

constexpr std::array<ForVariable, 33> kForVariables = {
    ForVariable{"--gloo", "HOROVOD_CONTROLLER", "gloo"},
    ForVariable{"--use-gloo", "HOROVOD_CONTROLLER", "gloo"},
    ForVariable{"--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", "", int64_t{1} << 20},
    ForVariable{"--cycle-time-ms", "HOROVOD_CYCLE_TIME", ""},
    ForVariable{"--cache-capacity", "HOROVOD_CACHE_CAPACITY", ""},
    ForVariable{"--hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
    ForVariable{"--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "0"},
    ForVariable{"--hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "1"},
    ForVariable{"--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "0"},
    ForVariable{"--autotune", "HOROVOD_AUTOTUNE", "1"},
    ForVariable{"--no-autotune", "HOROVOD_AUTOTUNE", "0"},
    ForVariable{"--autotune-log-file", "HOROVOD_AUTOTUNE_LOG", ""},
    ForVariable{"--autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", ""},
    ForVariable{"--autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", ""},
    ForVariable{"--autotune-bayes-opt-max-samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", ""},
    ForVariable{"--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", ""},
    ForVariable{"--timeline-filename", "HOROVOD_TIMELINE", ""},
    ForVariable{"--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "1"},
    ForVariable{"--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "0"},
    ForVariable{"--stall-check", "HOROVOD_STALL_CHECK_DISABLE", "0"},
    ForVariable{"--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE", "1"},
    ForVariable{"--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", ""},
    ForVariable{"--stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", ""},
    ForVariable{"--mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", "1"},
    ForVariable{"--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE", "0"},
    ForVariable{"--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS", ""},
    ForVariable{"--thread-affinity", "HOROVOD_THREAD_AFFINITY", ""},
    ForVariable{"--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", ""},
    ForVariable{"--log-level", "HOROVOD_LOG_LEVEL", ""},
    ForVariable{"--log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", "1"},
    ForVariable{"--no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME", "0"},
    ForVariable{"--log-without-timestamp", "HOROVOD_LOG_HIDE_TIME", "1"},
    ForVariable{"--log-with-timestamp", "HOROVOD_LOG_HIDE_TIME", "0"},
};

}  // namespace

const ForVariable* find_for_variable(std::string_view name) {
  const auto found = std::find_if(kForVariables.begin(),
                                  kForVariables.end(),
                                  [name](const ForVariable& one) { return one.name == name; });
  return found == kForVariables.end() ? nullptr : &*found;
}

std::optional<std::string_view> find_alias(std::string_view subcommand, std::string_view name) {
  const auto* found = std::find_if(kAliases.begin(), kAliases.end(), [&](const Alias& alias) {
    return alias.subcommand == subcommand && alias.name == name;
  });
  return found == kAliases.end() ? std::nullopt : std::optional(found->meant);
}

const Foreign* find_foreign(std::string_view name) {
  const auto found = std::find_if(
      kForeign.begin(), kForeign.end(), [name](const Foreign& one) { return one.name == name; });
  return found == kForeign.end() ? nullptr : &*found;
}

}  // namespace lockstep::cli
