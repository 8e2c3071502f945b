// SPDX-License-Identifier: Apache-2.0
//
// torchrun reads --rdzv-conf as free-form pairs and ignores unknown keys. Here an unknown key is an
// error, since a misspelt timeout would have no effect, and a known one without effect is a remark.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/plan/parse_options.h"

namespace lockstep::plan {
namespace {

constexpr std::string_view kFlag = "--rdzv-conf";
constexpr std::string_view kHint = "--rdzv-conf join_timeout=600,last_call_timeout=30";

// Keys that torchrun's store needs and lockstep ignores, and why.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kUnneeded = {
    std::pair("read_timeout", "a node that does not answer counts as lost"),
    std::pair("close_timeout", "the rendezvous ends with the run"),
    std::pair("heartbeat_timeout", "lost nodes are detected by their connection"),
    std::pair("keep_alive_interval", "lost nodes are detected by their connection"),
    std::pair("keep_alive_max_attempt", "lost nodes are detected by their connection"),
};

std::vector<std::string> known_keys() {
  std::vector<std::string> keys = {
      "timeout", "join_timeout", "last_call_timeout", "rank", "is_host", "store_type", "use_libuv"};
  for (const auto& [key, why] : kUnneeded) {
    keys.emplace_back(key);
  }
  return keys;
}

std::optional<bool> find_truth(std::string_view text) {
  const auto is_one_of = [word = to_lower(text)](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (is_one_of({"1", "true", "t", "yes", "y"})) {
    return true;
  }
  return is_one_of({"0", "false", "f", "no", "n"}) ? std::optional(false) : std::nullopt;
}

// Interprets one key and its value.
class Reader {
 public:
  Reader(const OptionValue& whole, RendezvousOptions& rules) : whole_(whole), rules_(rules) {}

  void take(const std::string& key, const std::string& value) {
    const OptionValue given{
        .text = value, .source = whole_.source, .flag = fmt::format("--rdzv-conf {}", key)};
    if (key == "timeout" || key == "join_timeout") {
      rules_.start_timeout =
          read_seconds(given, {.flag = kFlag, .minimum = 1, .hint = kHint}).value;
    } else if (key == "last_call_timeout") {
      rules_.last_call = read_seconds(given, {.flag = kFlag, .minimum = 0, .hint = kHint}).value;
    } else if (key == "rank") {
      rules_.node =
          read_number(given,
                      {.flag = kFlag, .minimum = 0, .maximum = 65535, .hint = "--node-rank 0"})
              .value;
    } else if (key == "is_host" || key == "use_libuv") {
      take_truth(key, given);
    } else if (key == "store_type") {
      take_store(given);
    } else {
      take_unneeded(key, given);
    }
  }

 private:
  // is_host=1 makes a node host the store in torchrun; here the leader is node 0, hence rank 0.
  void take_truth(const std::string& key, const OptionValue& given) {
    const auto truth = find_truth(given.text);
    if (!truth) {
      throw invalid_value(given, kFlag, "0 or 1").hint(fmt::format("--rdzv-conf {}=1", key));
    }
    if (key == "is_host" && *truth) {
      rules_.node = rules_.node.value_or(0);
    } else {
      remark(key, given, "--rdzv-endpoint selects the leader, and lockstep has its own store");
    }
  }

  void take_store(const OptionValue& given) {
    if (given.text != "tcp") {
      throw Error(ExitCode::Usage, fmt::format("the store type '{}' is not supported", given.text))
          .fact("requested", said(whole_, kFlag), whole_.source)
          .fact("expected", "tcp: the rendezvous uses the network")
          .hint("drop store_type from --rdzv-conf");
    }
    remark("store_type", given, "it is the only type");
  }

  void take_unneeded(const std::string& key, const OptionValue& given) {
    for (const auto& [name, why] : kUnneeded) {
      if (name == key) {
        read_seconds(given, {.flag = kFlag, .minimum = 0, .hint = kHint});
        remark(key, given, why);
        return;
      }
    }
    const std::vector<std::string> keys = known_keys();
    const auto closest = find_closest(key, keys);
    throw Error(ExitCode::Usage, fmt::format("unknown key '{}' in --rdzv-conf", key))
        .fact("found", said(whole_, kFlag), whole_.source)
        .fact("available", join(keys, ", "))
        .hint(closest ? fmt::format("--rdzv-conf {}={}", *closest, given.text)
                      : std::string(kHint));
  }

  void remark(std::string_view key, const OptionValue& given, std::string_view why) {
    rules_.remarks.push_back(
        fmt::format("--rdzv-conf {}={} is not needed: {}", key, given.text, why));
  }

  const OptionValue& whole_;
  RendezvousOptions& rules_;
};

}  // namespace

RendezvousOptions read_rdzv_conf(const OptionValue& given) {
  RendezvousOptions rules;
  for (const std::string& piece : split(given.text, ',')) {
    const size_t equals = piece.find('=');
    const std::string key(trim(std::string_view(piece).substr(0, equals)));
    const std::string value = equals == std::string::npos
                                  ? ""
                                  : std::string(trim(std::string_view(piece).substr(equals + 1)));
    if (key.empty() || value.empty()) {
      throw invalid_value(given, kFlag, "KEY=VALUE,...").hint(kHint);
    }
    Reader(given, rules).take(key, value);
  }
  return rules;
}

}  // namespace lockstep::plan
