// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/contract/node_sample.h"

// Counters of the kernel since boot.
namespace lockstep::cluster {

// Total busy time of these processors in seconds, from the text of /proc/stat.
double busy_seconds(std::string_view stat, std::span<const int> processors);

// CPU time of the cgroup of this process, if it has one. `membership` is the text of
// /proc/self/cgroup; versions 1 and 2 are supported.
std::optional<double> find_cgroup_cpu_seconds(std::string_view membership,
                                              const std::filesystem::path& mount);

// Counters of every network interface with traffic, and of every port of an InfiniBand or RoCE
// adapter ("mlx5_0/1"), whose traffic bypasses the interfaces of the kernel. `sysfs` is the
// directory that contains class/net and class/infiniband.
std::vector<contract::InterfaceSample> read_interfaces(const std::filesystem::path& sysfs = "/sys");

}  // namespace lockstep::cluster
