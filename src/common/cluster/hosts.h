// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Parsers for the host lists of launchers and Slurm.
namespace lockstep::cluster {

struct Host {
  std::string name;
  std::optional<int> slots;  // number of workers, if the list gives it
  std::vector<int> gpus;     // the only devices to use, if the list gives them

  bool operator==(const Host&) const = default;
};

// Expands Slurm's "gpu-[08-10,12],login" in order and keeps leading zeros. Throws an Error (64)
// that quotes the text; `what` is its name in the message.
std::vector<std::string> expand_hostlist(std::string_view text,
                                         std::string_view what = "host list");

// Expands Slurm's counts per node, "2(x3),1".
std::vector<int> expand_counts(std::string_view text, std::string_view what = "counts");

// Parses -H of horovodrun: "h1:4,h2:2", "h1"; also brackets of Slurm and IPv6 addresses
// ("[fe80::1]:2").
std::vector<Host> parse_hosts(std::string_view text);

// Parses a host file: "h1 slots=4" (deepspeed, Open MPI), "h1:4" or "h1" (horovodrun), # comments.
// `name` is the file name for messages.
std::vector<Host> parse_hostfile(std::string_view text, std::string_view name);

// As in deepspeed, --include "h0@h1:0,2" keeps only these hosts and devices, --exclude drops them;
// at most one is allowed. Throws an Error (64) that names a host or device that is not in `hosts`.
std::vector<Host> select_hosts(std::vector<Host> hosts,
                               const std::optional<std::string>& include,
                               const std::optional<std::string>& exclude);

}  // namespace lockstep::cluster
