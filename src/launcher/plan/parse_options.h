// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"
#include "lockstep/error.h"

// Parsers for single options. Every failure is an Error (64) that quotes the value and its source.
namespace lockstep::plan {

inline constexpr std::string_view kCommandLine = "command line";

// "--nnodes", or the spelling of the user.
std::string spelt(const OptionValue& given, std::string_view flag);

// "--nnodes 4", or "PET_NNODES=4".
std::string said(const OptionValue& given, std::string_view flag);

Source source_of(const OptionValue& given, std::string_view flag);

// "invalid value 'x' for --nnodes", to which the caller adds a hint.
Error invalid_value(const OptionValue& given, std::string_view flag, std::string_view expected);

struct NumberRule {
  std::string_view flag;
  int minimum = 0;
  int maximum = 0;
  std::string_view hint;
};

Sourced<int> read_number(const OptionValue& given, const NumberRule& rule);

struct SecondsRule {
  std::string_view flag;
  double minimum = 0;
  std::string_view hint;
};

// From `minimum` seconds to a week.
Sourced<double> read_seconds(const OptionValue& given, const SecondsRule& rule);

// Seconds, or HH:MM:SS.
Sourced<double> read_timeout(const OptionValue& given);

// Resolves a path relative to `directory`.
Sourced<std::string> read_path(const OptionValue& given,
                               std::string_view flag,
                               const std::string& directory);

Bind read_bind(const OptionValue& given);

// As in torchrun: "3", or "0:1,1:3" by local rank.
StreamRule read_streams(const OptionValue& given, std::string_view flag);

// "0,2".
std::set<int> read_local_ranks(const OptionValue& given);

// A host name or an address; removes the brackets of an IPv6 address.
std::string read_host(const OptionValue& given, std::string_view flag);

// "host:port", "host", "[fe80::1]:port".
struct Endpoint {
  std::string host;
  std::optional<int> port;

  bool operator==(const Endpoint&) const = default;
};

Endpoint read_endpoint(const OptionValue& given);

// The supported keys of torchrun's --rdzv-conf. `remarks` explains the ignored ones.
struct RendezvousOptions {
  std::optional<double> start_timeout;
  std::optional<double> last_call;
  std::optional<int> node;
  std::vector<std::string> remarks;

  bool operator==(const RendezvousOptions&) const = default;
};

RendezvousOptions read_rdzv_conf(const OptionValue& given);

}  // namespace lockstep::plan
