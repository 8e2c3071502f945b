// SPDX-License-Identifier: Apache-2.0
#include "cli/spellings.h"

#include <algorithm>
#include <array>

namespace lockstep::cli {
namespace {

struct Alias {
  std::string_view subcommand;
  std::string_view name;
  std::string_view meant;
};

constexpr auto kAliases = std::to_array<Alias>({
    {"run", "-np", "--num-proc"},
    {"run", "--np", "--num-proc"},
    {"run", "-hostfile", "--hostfile"},
    {"run", "--host", "--hosts"},
    {"run", "--num-accelerators", "--num-gpus"},
    {"run", "--network-interface", "--network-interfaces"},
    {"generate-slurm", "-ns", "--no-save-script"},
    {"generate-slurm", "-nj", "--no-submit-job"},
    {"generate-slurm", "-ps", "--py-spy"},
    {"generate-slurm", "-pr", "--profiling-sampling-rate"},
    {"generate-slurm", "--dist-strat", "--distributed-strategy"},
    {"generate-slurm", "--pre-exec-cmd", "--pre-exec-command"},
});

constexpr std::string_view kTorchrun = "torchrun";
constexpr std::string_view kHorovodrun = "horovodrun";
constexpr std::string_view kDeepspeed = "deepspeed";
constexpr std::string_view kElastic = "a run grows and shrinks by whole nodes";
constexpr std::string_view kFound = "what a machine has is found when a run starts";
constexpr std::string_view kOneWay = "the control plane is lockstep's own";

constexpr std::array<Foreign, 36> kForeign = {
    Foreign{"--shutdown-timeout", kTorchrun, "it has another name here", "--grace SECONDS"},
    Foreign{"--virtual-local-rank", kTorchrun, "a worker keeps its local rank", "--bind gpu"},
    Foreign{"--numa-binding", kTorchrun, "workers keep to cores, not to NUMA nodes", "--bind core"},
    Foreign{"--logs-specs", kTorchrun, "there are no plug-ins", "--log-dir DIR --tee 3"},
    Foreign{"--event-log-handler", kTorchrun, "there are no plug-ins", "RUN/events has the events"},
    Foreign{"--signals-to-handle",
            kTorchrun,
            "all that ask to stop are handled",
            "drop it: SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are"},
    Foreign{"--min-np", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--max-np", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--min-num-proc", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--max-num-proc", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--host-discovery-script", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--slots-per-host", kHorovodrun, kElastic, "--nproc-per-node COUNT"},
    Foreign{"--reset-limit", kHorovodrun, "it has another name here", "--max-restarts COUNT"},
    Foreign{"--mpi", kHorovodrun, "workers meet over Gloo", "mpirun -np 4 lockstep run PROGRAM"},
    Foreign{
        "--use-mpi", kHorovodrun, "workers meet over Gloo", "mpirun -np 4 lockstep run PROGRAM"},
    Foreign{"--mpi-args", kHorovodrun, "no mpirun is started", "mpirun ARGS lockstep run PROGRAM"},
    Foreign{"--binding-args", kHorovodrun, "no mpirun is started", "--bind core"},
    Foreign{"--blacklist-cooldown-range", kHorovodrun, kElastic, "--nnodes MIN:MAX"},
    Foreign{"--jsrun", kHorovodrun, kOneWay, "jsrun ARGS lockstep run PROGRAM"},
    Foreign{"--check-build", kHorovodrun, kFound, "lockstep doctor"},
    Foreign{"-cb", kHorovodrun, kFound, "lockstep doctor"},
    Foreign{"--disable-cache", kHorovodrun, "nothing is cached", "drop it"},
    Foreign{"--config-file", kHorovodrun, "options come from the command line", "drop it"},
    Foreign{"--prefix-timestamp", kHorovodrun, "lines have the rank before them", "drop it"},
    Foreign{"--launcher", kDeepspeed, kOneWay, "drop it: srun inside a Slurm job, else ssh"},
    Foreign{"--launcher-args", kDeepspeed, kOneWay, "drop it"},
    Foreign{"--force-multi", kDeepspeed, "a run knows its nodes", "drop it"},
    Foreign{"--no-ssh", kDeepspeed, "it has another name here", "--node-rank N on each node"},
    Foreign{"--no-ssh-check", kDeepspeed, "ssh is not tried beforehand", "drop it"},
    Foreign{"--elastic-training", kDeepspeed, kElastic, "--nnodes MIN:MAX"},
    Foreign{
        "--enable-each-rank-log", kDeepspeed, "it has another name here", "--log-dir DIR --tee 3"},
    Foreign{"--autotuning", kDeepspeed, "nothing tries out a ds_config.json", "drop it"},
    Foreign{"--bind-core-list", kDeepspeed, "a worker has its share of the cores", "--bind core"},
    Foreign{"--bind-cores-to-rank", kDeepspeed, "it has another name here", "--bind core"},
    Foreign{"--save-pid", kDeepspeed, "runs are known by their directory", "--run-dir DIR"},
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
