// SPDX-License-Identifier: Apache-2.0
//
// Options arrive as text with their source, so that one place decides what is valid: for the
// command line, the PET_* variables of torchrun and job files alike. Limits on numbers are
// generous; they only exclude typing errors and overflow.
#include "launcher/plan/parse_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::plan {
namespace {

constexpr int kMaxPort = 65535;
constexpr double kWeek = 604800;

// from_chars accepts "inf" and "nan". The comparisons exclude both: nan is not >= 0.
std::optional<double> find_seconds(std::string_view text) {
  double seconds = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_whole = fault == std::errc() && end == text.data() + text.size();
  return is_whole && seconds >= 0 && seconds <= kWeek ? std::optional(seconds) : std::nullopt;
}

std::optional<int> find_number_between(std::string_view text, int minimum, int maximum) {
  const auto number = find_integer(text);
  if (!number || *number < minimum || *number > maximum) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

// "01:30:00"; nothing for any other format.
std::optional<double> find_clock(std::string_view text) {
  constexpr int kMaxHours = 168;
  const std::vector<std::string> pieces = split(text, ':');
  if (pieces.size() != 3 || pieces[1].size() != 2 || pieces[2].size() != 2) {
    return std::nullopt;
  }
  const auto hours = find_number_between(pieces[0], 0, kMaxHours);
  const auto minutes = find_number_between(pieces[1], 0, 59);
  const auto seconds = find_number_between(pieces[2], 0, 59);
  if (!hours || !minutes || !seconds) {
    return std::nullopt;
  }
  return *hours * 3600.0 + *minutes * 60.0 + *seconds;
}

}  // namespace

std::string_view command_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::Lockstep:
      return "lockstep run";
    case Dialect::Torchrun:
      return "torchrun";
    case Dialect::TorchLaunch:
      return "torch.distributed.launch";
    case Dialect::Horovodrun:
      return "horovodrun";
    case Dialect::Deepspeed:
      return "deepspeed";
  }
  return "";
}

std::string spelt(const OptionValue& given, std::string_view flag) {
  return given.flag.empty() ? std::string(flag) : given.flag;
}

std::string said(const OptionValue& given, std::string_view flag) {
  return given.source == kCommandLine ? fmt::format("{} {}", spelt(given, flag), given.text)
                                      : fmt::format("{}={}", given.source, given.text);
}

Source source_of(const OptionValue& given, std::string_view flag) {
  return given.source == kCommandLine ? Source{ValueSource::Flag, spelt(given, flag)}
                                      : Source{ValueSource::Variable, given.source};
}

Error invalid_value(const OptionValue& given, std::string_view flag, std::string_view expected) {
  return Error(ExitCode::Usage,
               fmt::format("invalid value '{}' for {}", given.text, spelt(given, flag)))
      .fact("expected", expected)
      .fact("found", fmt::format("'{}'", given.text), given.source);
}

Sourced<int> read_number(const OptionValue& given, const NumberRule& rule) {
  const auto number = find_number_between(given.text, rule.minimum, rule.maximum);
  if (!number) {
    throw invalid_value(
        given, rule.flag, fmt::format("a number from {} to {}", rule.minimum, rule.maximum))
        .hint(rule.hint);
  }
  return {*number, source_of(given, rule.flag)};
}

Sourced<double> read_seconds(const OptionValue& given, const SecondsRule& rule) {
  const auto seconds = find_seconds(given.text);
  if (!seconds || *seconds < rule.minimum) {
    throw invalid_value(given, rule.flag, fmt::format("seconds from {} to {}", rule.minimum, kWeek))
        .hint(rule.hint);
  }
  return {*seconds, source_of(given, rule.flag)};
}

Sourced<double> read_timeout(const OptionValue& given) {
  const auto clock = find_clock(given.text);
  const auto seconds = clock ? clock : find_seconds(given.text);
  if (!seconds || *seconds <= 0) {
    throw invalid_value(given, "--timeout", "seconds or HH:MM:SS, above 0, at most a week")
        .hint("--timeout 01:30:00");
  }
  return {*seconds, source_of(given, "--timeout")};
}

// Paths become absolute, because agents on other nodes and readers of plan.json have another
// current directory. An absolute path stays as it is (operator/ of std::filesystem::path).
Sourced<std::string> read_path(const OptionValue& given,
                               std::string_view flag,
                               const std::string& directory) {
  if (given.text.empty()) {
    throw invalid_value(given, flag, "a path").hint(fmt::format("{} PATH", spelt(given, flag)));
  }
  return {(std::filesystem::path(directory) / given.text).lexically_normal().string(),
          source_of(given, flag)};
}

Bind read_bind(const OptionValue& given) {
  if (given.text == "none") {
    return Bind::None;
  }
  if (given.text == "core") {
    return Bind::Core;
  }
  if (given.text == "gpu") {
    return Bind::Gpu;
  }
  throw invalid_value(given, "--bind", "core, gpu or none").hint("--bind core");
}

StreamRule read_streams(const OptionValue& given, std::string_view flag) {
  constexpr int kBoth = 3;
  constexpr int kMaxLocalRank = 4095;
  const auto refuse = [&] {
    return invalid_value(given, flag, "0 none, 1 stdout, 2 stderr, 3 both; or LOCAL_RANK:N,...")
        .hint(fmt::format("{} 3, or {} 0:3,1:2", spelt(given, flag), spelt(given, flag)));
  };
  StreamRule rule;
  if (const auto bits = find_number_between(given.text, 0, kBoth)) {
    rule.fallback = *bits;
    return rule;
  }
  for (const std::string& piece : split(given.text, ',')) {
    const size_t colon = piece.find(':');
    if (colon == std::string::npos) {
      throw refuse();
    }
    const auto local = find_number_between(piece.substr(0, colon), 0, kMaxLocalRank);
    const auto bits = find_number_between(piece.substr(colon + 1), 0, kBoth);
    if (!local || !bits) {
      throw refuse();
    }
    rule.by_local.insert_or_assign(*local, *bits);
  }
  if (rule.by_local.empty()) {
    throw refuse();
  }
  return rule;
}

std::set<int> read_local_ranks(const OptionValue& given) {
  constexpr int kMaxLocalRank = 4095;
  std::set<int> ranks;
  for (const std::string& piece : split(given.text, ',')) {
    const auto local = find_number_between(piece, 0, kMaxLocalRank);
    if (!local) {
      throw invalid_value(given, "--local-ranks-filter", "local ranks, separated by commas")
          .hint("--local-ranks-filter 0,1");
    }
    ranks.insert(*local);
  }
  return ranks;
}

std::string read_host(const OptionValue& given, std::string_view flag) {
  std::string host = given.text;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || host.find_first_of(" \t/,[]") != std::string::npos) {
    throw invalid_value(given, flag, "a host name or an address")
        .hint(fmt::format("{} node1", spelt(given, flag)));
  }
  return host;
}

// A text with several colons and without brackets is an IPv6 address without a port.
Endpoint read_endpoint(const OptionValue& given) {
  const std::string& text = given.text;
  const auto refuse = [&] {
    return invalid_value(given, "--rdzv-endpoint", "HOST or HOST:PORT, IPv6 in brackets")
        .hint("--rdzv-endpoint node1:29400");
  };
  Endpoint endpoint{.host = text, .port = std::nullopt};
  std::string rest;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string::npos) {
      throw refuse();
    }
    endpoint.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    endpoint.host = text.substr(0, text.find(':'));
    rest = text.substr(text.find(':'));
  }
  if (!rest.empty()) {
    endpoint.port = find_number_between(rest.substr(1), 0, kMaxPort);
  }
  const bool is_port_fine = rest.empty() || (rest.front() == ':' && endpoint.port);
  if (endpoint.host.empty() || endpoint.host.find_first_of(" /,") != std::string::npos ||
      !is_port_fine) {
    throw refuse();
  }
  return endpoint;
}

}  // namespace lockstep::plan
