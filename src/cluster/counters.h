// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "contract/node_sample.h"

// What the kernel has counted since the node was started.
namespace lockstep::cluster {

// Seconds in which these processors were busy, all together, from the text of /proc/stat.
double busy_seconds(std::string_view stat, std::span<const int> processors);

// CPU time of this process's cgroup, where there is one; `membership` is the text of
// /proc/self/cgroup, versions 1 and 2 are both read.
std::optional<double> find_cgroup_cpu_seconds(std::string_view membership,
                                              const std::filesystem::path& mount);

// Of every network interface that has carried anything, and of every port of an InfiniBand or RoCE
// adapter ("mlx5_0/1"), whose traffic passes the kernel's interfaces by. `sysfs` is where class/net
// and class/infiniband lie.
std::vector<contract::InterfaceSample> read_interfaces(const std::filesystem::path& sysfs = "/sys");

}  // namespace lockstep::cluster
