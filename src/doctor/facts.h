// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/network.h"

// What the doctor finds, as plain values: the checks read these and nothing else, so that each can
// be tested with made-up ones. A text that is empty and a number that is -1 were not found.
namespace lockstep::doctor {

inline constexpr int64_t kUnknown = -1;
inline constexpr int64_t kUnlimited = INT64_MAX;

struct InterfaceFact {
  std::string name;
  std::string state;  // the kernel's: up, down, unknown
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
  int ecc = -1;          // 0 off, 1 on
  int persistence = -1;  // 0 off, 1 on
  int64_t uncorrected_errors = kUnknown;
};

struct GpuFacts {
  bool has_nvml = false;
  std::string fault;        // why NVML, which is there, does not work
  std::string driver;       // "550.54.15"
  int cuda_of_driver = -1;  // 12040: 12.4
  std::vector<GpuFact> gpus;
  int device_files = 0;  // /dev/nvidia0 ...
  bool is_visible_set = false;
  std::string visible;  // CUDA_VISIBLE_DEVICES
  int granted = -1;     // by Slurm, on this node
};

// A program or library; `version` is empty when it is there and does not tell.
struct SoftwareFact {
  std::string version;
  std::string where;  // its path; empty: not found

  bool operator==(const SoftwareFact&) const = default;
};

struct PythonFacts {
  SoftwareFact python;
  std::string torch;  // version
  std::string cuda;   // that torch was built for
  std::string nccl;   // that torch was built with
  std::vector<std::string> backends;
  std::string fault;  // "did not answer within 20 s", or the last line of its complaint
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
  int64_t memory_limit = kUnknown;  // of the cgroup; kUnlimited
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

struct PlaceFacts {
  SoftwareFact container;              // apptainer or singularity
  std::string container_name;          // which of them
  int64_t user_namespaces = kUnknown;  // how many there may be
  bool has_fuse = false;
  std::string modules;          // "Lmod 8.6", "environment-modules"; empty: none
  std::string module_script;    // what would define `module`
  int has_module_command = -1;  // in a shell as batch scripts are; -1: not tried
  std::string virtual_env;
  std::string conda;
  std::map<std::string, std::string> proxies;  // without passwords
  SpaceFact temp;
  SpaceFact home;
  int sees_home = -1;       // a file that the first node has made; -1: not tried
  int sees_directory = -1;  // the same of the working directory
};

// One node.
struct NodeFacts {
  std::string name;
  std::vector<InterfaceFact> interfaces;
  std::map<std::string, std::vector<std::string>> resolved;  // what nodes' names stand for here
  bool can_listen = true;                                    // on a port that the kernel chooses
  bool is_29500_free = true;                                 // torchrun's habit
  std::vector<RdmaPortFact> rdma;
  GpuFacts gpu;
  SoftwareFacts software;
  LimitFacts limits;
  PlaceFacts place;
};

struct PartitionFact {
  std::string name;
  std::string state;  // up, down
  std::string time_limit;
  std::string nodes;  // "4"
  std::string gpus;   // "gpu:fake:2"; "(null)"
};

// What is known of Slurm, from where the doctor was called.
struct SlurmFacts {
  std::string version;     // "22.05.8"; empty: no Slurm here
  std::string controller;  // what `scontrol ping` says
  int is_controller_up = -1;
  std::vector<PartitionFact> partitions;
  std::string mpi_types;     // what `srun --mpi=list` says
  std::string fault_of_job;  // why lockstep run would refuse; empty: it would not
  bool is_in_job = false;
  bool is_in_step = false;                       // as one of several tasks
  std::map<std::string, std::string> variables;  // the job's own, SLURM_*
};

struct ClockFact {
  double offset = 0;  // against the first node's, or the doctor's own
  double precision = 0;
};

// What only several nodes together show.
struct GangFacts {
  std::vector<std::string> nodes;     // that came
  std::vector<std::string> missing;   // that did not
  std::string fault;                  // why agents could not be started
  std::vector<std::string> silent;    // came, but did not tell their facts in time
  std::vector<std::string> networks;  // as people read them: "10.12.0.0/24 (fab0)"
  std::vector<plan::Trial> trials;    // numbers are of `nodes` and `networks`
  // addresses[network][node]
  std::vector<std::vector<std::string>> addresses;
  int chosen = -1;  // of `networks`
  std::string reason;
  std::vector<std::string> details;
  std::map<std::string, ClockFact> clocks;
};

// Everything that the checks read.
struct Facts {
  std::string version;  // lockstep's
  std::string host;     // where the doctor was called
  bool is_quick = false;
  SlurmFacts slurm;
  GangFacts gang;
  std::vector<NodeFacts> nodes;
};

std::string to_json_text(const NodeFacts& facts);
// Throws an Error (70) when the text was not written by to_json_text().
NodeFacts parse_node_facts(const std::string& text);

}  // namespace lockstep::doctor
