// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "launcher/doctor/finding.h"

namespace lockstep::testing {

constexpr int64_t kGiB = int64_t{1} << 30;

// A healthy node.
inline doctor::NodeFacts healthy_node(const std::string& name, int number = 1) {
  doctor::NodeFacts node;
  node.name = name;
  node.interfaces = {{.name = "fab0",
                      .state = "up",
                      .speed_mbps = 100000,
                      .mtu = 9000,
                      .is_rdma = false,
                      .addresses = {"10.12.0." + std::to_string(number) + "/24"}}};
  node.gpu = {.has_nvml = true,
              .fault = "",
              .driver = "550.54.15",
              .cuda_of_driver = 12040,
              .gpus = {{.name = "Fake GPU",
                        .memory_bytes = 80 * kGiB,
                        .ecc = true,
                        .persistence = true,
                        .uncorrected_errors = 0}},
              .device_files = 1,
              .is_visible_set = false,
              .visible = "",
              .granted = -1,
              .slices = 0,
              .no_slices = "",
              .mps = "/usr/bin/nvidia-cuda-mps-control"};
  node.software.mpi = {.version = "4.1.4", .where = "/usr/bin/mpirun"};
  node.software.mpi_kind = "Open MPI";
  node.software.python = {.python = {.version = "3.11.2", .where = "/usr/bin/python3"},
                          .torch = "2.4.0",
                          .cuda = "12.1",
                          .nccl = "2.20.5",
                          .backends = {"nccl", "gloo"},
                          .fault = ""};
  node.limits = {.cores_usable = 32,
                 .cores_online = 64,
                 .cores_granted = 32,
                 .memory_limit = 256 * kGiB,
                 .memory_total = 512 * kGiB,
                 .shm_total = 256 * kGiB,
                 .shm_free = 255 * kGiB,
                 .open_files = 65536,
                 .most_open_files = 524288,
                 .locked_bytes = doctor::kUnlimited,
                 .processes = doctor::kUnlimited};
  node.place.container = {.version = "1.3.0", .where = "/usr/bin/apptainer"};
  node.place.container_name = "apptainer";
  node.place.user_namespaces = 1000;
  node.place.has_fuse = true;
  node.place.modules = "Lmod 8.7";
  node.place.has_module_command = true;
  node.place.virtual_env = "/home/me/venv";
  node.place.temp = {.path = "/tmp", .total = 100 * kGiB, .free = 90 * kGiB};
  node.place.home = {.path = "/home/me", .total = 100 * kGiB, .free = 50 * kGiB};
  node.place.sees_home = true;
  node.place.sees_directory = true;
  return node;
}

// A job on three healthy nodes; mgmt0 is blocked.
inline doctor::Facts healthy_facts() {
  doctor::Facts facts;
  facts.version = "1.2.3";
  facts.host = "n1";
  facts.slurm = {
      .version = "23.11.4",
      .controller = "Slurmctld(primary) at ctl is UP",
      .is_controller_up = true,
      .partitions = {{.name = "main*",
                      .state = "up",
                      .time_limit = "1-00:00:00",
                      .nodes = "4",
                      .gpus = "gpu:8"}},
      .mpi_types = "none; pmi2; pmix; ",
      .fault_of_job = "",
      .is_in_job = true,
      .is_in_step = false,
      .variables = {
          {"SLURM_JOB_ID", "42"}, {"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_JOB_NUM_NODES", "3"}}};
  facts.cross_node.nodes = {"n1", "n2", "n3"};
  facts.cross_node.networks = {"10.12.0.0/24 (fab0)", "10.11.0.0/24 (mgmt0)"};
  for (int network = 0; network < 2; ++network) {
    std::vector<std::string> addresses;
    for (int from = 0; from < 3; ++from) {
      addresses.push_back((network == 0 ? "10.12.0." : "10.11.0.") + std::to_string(from + 1));
      for (int to = 0; to < 3; ++to) {
        if (from != to) {
          facts.cross_node.trials.push_back({.from = from,
                                             .to = to,
                                             .network = network,
                                             .fault = network == 0 ? "" : "no answer",
                                             .milliseconds = 1});
        }
      }
    }
    facts.cross_node.addresses.push_back(addresses);
  }
  facts.cross_node.chosen = 0;
  facts.cross_node.reason = "10.12.0.0/24 (fab0): the only one of 2 networks";
  facts.cross_node.clocks = {
      {"n1", {0.0, 0.0001}}, {"n2", {0.004, 0.0002}}, {"n3", {-0.001, 0.0001}}};
  for (int number = 1; number <= 3; ++number) {
    facts.nodes.push_back(healthy_node("n" + std::to_string(number), number));
  }
  return facts;
}

// The worst finding about a subject; a finding without a subject if there is none.
inline doctor::Finding of_subject(const doctor::Findings& findings, std::string_view subject) {
  doctor::Finding found;
  for (const doctor::Finding& finding : findings) {
    if (finding.subject == subject &&
        (found.subject.empty() || finding.severity > found.severity)) {
      found = finding;
    }
  }
  return found;
}

}  // namespace lockstep::testing
