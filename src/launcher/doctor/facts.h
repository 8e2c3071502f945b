// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/network.h"

// Facts that `lockstep doctor` collects, as plain values. The checks read nothing else, so tests
// can use invented facts. An empty text, a number of -1 or an empty optional means unknown.
namespace lockstep::doctor {

inline constexpr int64_t kUnknown = -1;
inline constexpr int64_t kUnlimited = INT64_MAX;

struct InterfaceFact {
  std::string name;
  std::string state;  // operstate of the kernel: up, down, unknown
  int speed_mbps = 0;
  int mtu = 0;
  bool is_rdma = false;
  std::vector<std::string> addresses;  // "10.12.0.1/24"
};

struct GidFact {
  int index = 0;
  std::string gid;
  std::string type;  // "RoCE v2", "IB/RoCE v1"
  std::string interface;
};

struct RdmaPortFact {
  std::string device;  // mlx5_0
  int port = 1;
  std::string state;       // "4: ACTIVE"
  std::string link_layer;  // InfiniBand, Ethernet
  std::string rate;        // "400 Gb/sec (4X NDR)"
  std::vector<GidFact> gids;
};

struct GpuFact {
  std::string name;
  int64_t memory_bytes = kUnknown;
  std::optional<bool> ecc;
  std::optional<bool> persistence;
  int64_t uncorrected_errors = kUnknown;
};

struct GpuFacts {
  bool has_nvml = false;
  std::string fault;        // why an installed NVML does not work
  std::string driver;       // "550.54.15"
  int cuda_of_driver = -1;  // 12040: 12.4
  std::vector<GpuFact> gpus;
  int device_files = 0;  // /dev/nvidia0 ...
  bool is_visible_set = false;
  std::string visible;    // CUDA_VISIBLE_DEVICES
  int granted = -1;       // allocated by Slurm on this node
  int slices = 0;         // MIG slices that this user can use
  std::string no_slices;  // why a GPU in MIG mode cannot be used
  std::string mps;        // path of nvidia-cuda-mps-control
};

// A program or library. `version` is empty if it is installed but reports none.
struct SoftwareFact {
  std::string version;
  std::string where;  // path; empty: not found

  bool operator==(const SoftwareFact&) const = default;
};

struct PythonFacts {
  SoftwareFact python;
  std::string torch;  // version
  std::string cuda;   // version that torch was built for
  std::string nccl;   // version that torch was built with
  std::vector<std::string> backends;
  std::string fault;  // "did not answer within 20 s", or the last line of its error
};

struct SoftwareFacts {
  SoftwareFact cuda;
  SoftwareFact nccl;
  SoftwareFact mpi;
  std::string mpi_kind;  // "Open MPI", "MPICH", "Intel MPI"
  SoftwareFact libtorch;
  PythonFacts python;
};

struct LimitFacts {
  int cores_usable = -1;  // affinity and quota
  int cores_online = -1;
  int cores_granted = -1;           // SLURM_CPUS_ON_NODE
  int64_t memory_limit = kUnknown;  // of the cgroup; kUnlimited: none
  int64_t memory_total = kUnknown;
  int64_t shm_total = kUnknown;
  int64_t shm_free = kUnknown;
  int64_t open_files = kUnknown;
  int64_t most_open_files = kUnknown;
  int64_t locked_bytes = kUnknown;
  int64_t processes = kUnknown;
};

struct SpaceFact {
  std::string path;
  int64_t total = kUnknown;
  int64_t free = kUnknown;
};

struct EnvironmentFacts {
  SoftwareFact container;              // apptainer or singularity
  std::string container_name;          // name of the program
  int64_t user_namespaces = kUnknown;  // maximum number
  bool has_fuse = false;
  std::string modules;                     // "Lmod 8.6", "environment-modules"; empty: none
  std::string module_script;               // script that defines `module`
  std::optional<bool> has_module_command;  // in a non-login shell
  std::string virtual_env;
  std::string conda;
  std::map<std::string, std::string> proxies;  // without passwords
  SpaceFact temp;
  SpaceFact home;
  std::optional<bool> sees_home;       // whether the test file is visible
  std::optional<bool> sees_directory;  // likewise in the working directory
};

struct NodeFacts {
  std::string name;
  std::vector<InterfaceFact> interfaces;
  std::map<std::string, std::vector<std::string>> resolved;  // addresses by host name
  bool can_listen = true;                                    // on a port chosen by the kernel
  bool is_29500_free = true;                                 // default port of torchrun
  std::vector<RdmaPortFact> rdma;
  GpuFacts gpu;
  SoftwareFacts software;
  LimitFacts limits;
  EnvironmentFacts place;  // the name is part of the JSON format
};

struct PartitionFact {
  std::string name;
  std::string state;  // up, down
  std::string time_limit;
  std::string nodes;  // "4"
  std::string gpus;   // "gpu:fake:2"; "(null)"
};

// Facts about Slurm on the calling machine.
struct SlurmFacts {
  std::string version;     // "22.05.8"; empty: no Slurm
  std::string controller;  // output of `scontrol ping`
  std::optional<bool> is_controller_up;
  std::vector<PartitionFact> partitions;
  std::string mpi_types;     // output of `srun --mpi=list`
  std::string fault_of_job;  // why lockstep run would fail; empty: it would not
  bool is_in_job = false;
  bool is_in_step = false;                       // in a step with several tasks
  std::map<std::string, std::string> variables;  // SLURM_* of the job
};

struct ClockFact {
  double offset = 0;  // relative to the clock of the calling machine
  double precision = 0;
};

// Facts about several nodes together.
struct CrossNodeFacts {
  std::vector<std::string> nodes;     // that answered
  std::vector<std::string> missing;   // that did not answer
  std::string fault;                  // why agents could not be started
  std::vector<std::string> silent;    // answered, but did not report facts in time
  std::vector<std::string> networks;  // label: "10.12.0.0/24 (fab0)"
  std::vector<plan::Trial> trials;    // contains indices into `nodes` and `networks`
  // addresses[network][node]
  std::vector<std::vector<std::string>> addresses;
  int chosen = -1;  // index into `networks`; -1: none
  std::string reason;
  std::vector<std::string> details;
  std::map<std::string, ClockFact> clocks;
};

// Input of all checks.
struct Facts {
  std::string version;  // of lockstep
  std::string host;     // calling machine
  bool is_quick = false;
  SlurmFacts slurm;
  CrossNodeFacts cross_node;
  std::vector<NodeFacts> nodes;
};

std::string to_json_text(const NodeFacts& facts);
// Throws an Error (70) if the text does not have the format of to_json_text().
NodeFacts parse_node_facts(const std::string& text);

}  // namespace lockstep::doctor
