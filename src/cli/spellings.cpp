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
constexpr std::string_view kVariable = "Horovod reads it from a variable";
constexpr std::string_view kElastic = "a run grows and shrinks by whole nodes";
constexpr std::string_view kOneWay = "the control plane is lockstep's own";

constexpr std::array<Foreign, 38> kForeign = {
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
    Foreign{"--gloo", kHorovodrun, kOneWay, "drop it: Horovod's workers meet over Gloo"},
    Foreign{"--use-gloo", kHorovodrun, kOneWay, "drop it: Horovod's workers meet over Gloo"},
    Foreign{"--mpi", kHorovodrun, "workers meet over Gloo", "mpirun -np 4 lockstep run PROGRAM"},
    Foreign{
        "--use-mpi", kHorovodrun, "workers meet over Gloo", "mpirun -np 4 lockstep run PROGRAM"},
    Foreign{"--mpi-args", kHorovodrun, "no mpirun is started", "mpirun ARGS lockstep run PROGRAM"},
    Foreign{"--jsrun", kHorovodrun, kOneWay, "jsrun ARGS lockstep run PROGRAM"},
    Foreign{"--disable-cache", kHorovodrun, "nothing is cached", "drop it"},
    Foreign{"--config-file", kHorovodrun, "options come from the command line", "drop it"},
    Foreign{"--prefix-timestamp", kHorovodrun, "lines have the rank before them", "drop it"},
    Foreign{
        "--fusion-threshold-mb", kHorovodrun, kVariable, "--env HOROVOD_FUSION_THRESHOLD=BYTES"},
    Foreign{"--cycle-time-ms", kHorovodrun, kVariable, "--env HOROVOD_CYCLE_TIME=MILLISECONDS"},
    Foreign{"--cache-capacity", kHorovodrun, kVariable, "--env HOROVOD_CACHE_CAPACITY=COUNT"},
    Foreign{"--timeline-filename", kHorovodrun, kVariable, "--env HOROVOD_TIMELINE=FILE"},
    Foreign{"--autotune", kHorovodrun, kVariable, "--env HOROVOD_AUTOTUNE=1"},
    Foreign{"--log-level", kHorovodrun, kVariable, "--env HOROVOD_LOG_LEVEL=DEBUG"},
    Foreign{"--launcher", kDeepspeed, kOneWay, "drop it: srun inside a Slurm job, else ssh"},
    Foreign{"--launcher-args", kDeepspeed, kOneWay, "drop it"},
    Foreign{"--force-multi", kDeepspeed, "a run knows its nodes", "drop it"},
    Foreign{"--no-ssh", kDeepspeed, "it has another name here", "--node-rank N on each node"},
    Foreign{"--no-ssh-check", kDeepspeed, "ssh is not tried beforehand", "drop it"},
    Foreign{"--elastic-training", kDeepspeed, kElastic, "--nnodes MIN:MAX"},
    Foreign{
        "--enable-each-rank-log", kDeepspeed, "it has another name here", "--log-dir DIR --tee 3"},
    Foreign{"--bind-cores-to-rank", kDeepspeed, "it has another name here", "--bind core"},
    Foreign{"--save-pid", kDeepspeed, "runs are known by their directory", "--run-dir DIR"},
    Foreign{"--venv-script", kDeepspeed, "agents inherit the environment", "activate it first"},
};

}  // namespace

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
