// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

// The variables with which launchers, lockstep and others, set the rank of a process. Used to read
// the variables of another launcher, and to remove old variables from the environment of new
// processes. User settings (NCCL_*, OMPI_MCA_*, HOROVOD_CYCLE_TIME ...) are not included.
namespace lockstep::contract {

// The names that one launcher uses for the same four numbers.
struct RankVariables {
  std::string_view launcher;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};

inline constexpr RankVariables kTorchrunNames = {
    "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

// Additional variables of torchrun only.
inline constexpr std::array<std::string_view, 3> kTorchrunMarks = {
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"};

inline constexpr RankVariables kOpenMpiNames = {"Open MPI",
                                                "OMPI_COMM_WORLD_RANK",
                                                "OMPI_COMM_WORLD_SIZE",
                                                "OMPI_COMM_WORLD_LOCAL_RANK",
                                                "OMPI_COMM_WORLD_LOCAL_SIZE"};

// The local rank is set by mpiexec of MPICH and Intel, or by that of Cray.
inline constexpr std::array<RankVariables, 2> kPmiNames = {
    RankVariables{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    RankVariables{"PMI", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}};

inline constexpr RankVariables kMvapichNames = {"MVAPICH",
                                                "MV2_COMM_WORLD_RANK",
                                                "MV2_COMM_WORLD_SIZE",
                                                "MV2_COMM_WORLD_LOCAL_RANK",
                                                "MV2_COMM_WORLD_LOCAL_SIZE"};

inline constexpr RankVariables kJsmNames = {"jsrun",
                                            "JSM_NAMESPACE_RANK",
                                            "JSM_NAMESPACE_SIZE",
                                            "JSM_NAMESPACE_LOCAL_RANK",
                                            "JSM_NAMESPACE_LOCAL_SIZE"};

// The interface chosen by the launcher, and the variables of other libraries with the same value.
inline constexpr std::string_view kChosenInterface = "LOCKSTEP_INTERFACE";
inline constexpr std::array<std::string_view, 4> kInterfaceVariables = {
    "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE"};

inline constexpr std::array kRankVariables = std::to_array<std::string_view>({
    // torchrun, torch.distributed.launch
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_TIMER_FILE",
    // deepspeed
    "LOCAL_SIZE",
    "CROSS_RANK",
    "CROSS_SIZE",
    // horovodrun
    "HOROVOD_HOSTNAME",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "HOROVOD_ELASTIC",
    // TensorFlow
    "TF_CONFIG",
    // Open MPI, including variables of mpirun that would make MPI_Init search for its server.
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_NUM_APP_CTX",
    "OMPI_FIRST_RANKS",
    "OMPI_FILE_LOCATION",
    "OMPI_COMMAND",
    "OMPI_ARGV",
    "OMPI_MCA_ess",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_ess_base_vpid",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_orte_app_num",
    "OMPI_MCA_orte_bound_at_launch",
    "OMPI_MCA_orte_ess_node_rank",
    "OMPI_MCA_orte_ess_num_procs",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_jobfam_session_dir",
    "OMPI_MCA_orte_launch",
    "OMPI_MCA_orte_local_daemon_uri",
    "OMPI_MCA_orte_num_nodes",
    "OMPI_MCA_orte_precondition_transports",
    "OMPI_MCA_orte_top_session_dir",
    "OMPI_MCA_pmix",
    "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
    "PRTE_LAUNCHED",
    // MPICH, Intel MPI
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_CONTROL_FD",
    // With one of these and without PMI, Open MPI regards the process as a task of srun, and
    // MPI_Init fails. The other SLURM_* variables belong to the job or are harmless.
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    // lockstep
    "LOCKSTEP_RUN_ID",
    "LOCKSTEP_RUN_DIR",
    "LOCKSTEP_INTERFACE",
    "LOCKSTEP_FORK_OFFER",
    "LOCKSTEP_TERMINAL_COLUMNS",
    "LOCKSTEP_COMMAND_TIME",
    "LOCKSTEP_MEETING",
    "LOCKSTEP_SECRET",
});

inline constexpr std::array kRankVariablePrefixes = std::to_array<std::string_view>({
    "OMPI_COMM_WORLD_",
    "PMIX_",
    "PMI_",
    "PALS_",
    "MV2_COMM_WORLD_",
    "JSM_NAMESPACE_",
});

// User settings that begin with one of these prefixes.
inline constexpr std::string_view kSettingPrefix = "PMIX_MCA_";

}  // namespace lockstep::contract
