// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Lists of machines, in every dialect that launchers and Slurm write.
namespace lockstep::cluster {

struct Host {
  std::string name;
  std::optional<int> slots;  // workers that it takes, if the list says so
  std::vector<int> gpus;     // the only devices to use, if the list says so

  bool operator==(const Host&) const = default;
};

// Slurm's "gpu-[08-10,12],login": one name after the other, in that order and width. Throws an
// Error (64) that quotes the text, under the name of `what` it is.
std::vector<std::string> expand_hostlist(std::string_view text,
                                         std::string_view what = "the host list");

// Slurm's counts per node, "2(x3),1".
std::vector<int> expand_counts(std::string_view text, std::string_view what = "the counts");

// horovodrun's -H: "h1:4,h2:2", "h1"; also Slurm's brackets and IPv6 in brackets ("[fe80::1]:2").
std::vector<Host> parse_hosts(std::string_view text);

// A host file: "h1 slots=4" (deepspeed, Open MPI), "h1:4" or "h1" (horovodrun), # comments. `name`
// is the file's, for messages with line and text.
std::vector<Host> parse_hostfile(std::string_view text, std::string_view name);

// deepspeed's --include "h0@h1:0,2" keeps only these hosts and devices, --exclude drops them. At
// most one of the two. Throws an Error (64) that names a host or device which is not in `hosts`.
std::vector<Host> select_hosts(std::vector<Host> hosts,
                               const std::optional<std::string>& include,
                               const std::optional<std::string>& exclude);

}  // namespace lockstep::cluster
