// SPDX-License-Identifier: Apache-2.0
//
// A message is decoded from bytes of another machine in three steps, each of which can reject them:
// the nesting depth (DepthCheck), the kind (first byte), the fields by name and type. Unknown
// fields are ignored, missing ones are an error. The fields of a message are the names of its
// members, so a member cannot be renamed without increasing kProtocol.
#include "launcher/supervisor/protocol/messages.h"

#include <cstring>
#include <fmt/format.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

// Serialization, field by field. nlohmann finds these functions by argument-dependent lookup, hence
// the namespaces.
namespace lockstep::os {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExitStatus, code, signal)
}  // namespace lockstep::os

namespace lockstep::cluster {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    Address, interface, text, prefix, is_v6, is_loopback, speed_mbps, is_rdma)
}  // namespace lockstep::cluster

namespace lockstep::contract {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StreamRule, fallback, by_local)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    OutputRules, log_dir, redirects, tee, local_ranks_filter, output_filename)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Metric, name, pattern)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerSpec,
                                   rank,
                                   world_size,
                                   local_rank,
                                   local_world_size,
                                   node_rank,
                                   nodes,
                                   master_addr,
                                   master_port,
                                   interface,
                                   run_id,
                                   run_directory,
                                   attempt,
                                   max_restarts,
                                   role,
                                   cross_rank,
                                   cross_size,
                                   node,
                                   error_file,
                                   horovod_addr,
                                   horovod_port)
}  // namespace lockstep::contract

namespace lockstep::plan {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trial, from, to, network, fault, milliseconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeSpec,
                                   command,
                                   program_word,
                                   local_rank_flag,
                                   first,
                                   workers,
                                   cross_ranks,
                                   cross_sizes,
                                   variables,
                                   bind,
                                   gpus,
                                   starts_mps,
                                   output,
                                   metrics,
                                   sample_every_seconds,
                                   cores,
                                   tensorflow_cluster)
}  // namespace lockstep::plan

namespace lockstep::supervisor {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessId, kind, number)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Probed, round, trials)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Prepared, attempt, ports)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Started, attempt)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Refused, attempt, code, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Exited, attempt, process, status, sent)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stopped, attempt, left_behind)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Explained, process, failure)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interrupted, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Answered, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Recorded, kind, number, lines)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Unwritten, sentence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Target, to, network, address, port, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Probe, round, self, targets, timeout_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Prepare, attempt, ports, wanted_host, wanted_port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Start, spec)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stop, grace_seconds, is_asked)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pass, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Explain, process)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Credit, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Release, code, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ask, text)

namespace {

using Json = nlohmann::json;

constexpr int kNoNode = -1;

}  // namespace

// Join is written by hand, because it must be readable across versions as far as `protocol`: an
// agent of another version gets a clear message instead of a decoding error.
static void to_json(Json& json, const Join& join) {
  json = {{"protocol", join.protocol},
          {"name", join.name},
          {"machine", join.machine},
          {"node", join.node.value_or(kNoNode)},
          {"sort_key", join.sort_key},
          {"workers", join.workers},
          {"cores", join.cores},
          {"gpus", join.gpus},
          {"addresses", join.addresses},
          {"probe_port", join.probe_port},
          {"fault", join.fault},
          {"fault_code", join.fault_code}};
}

static void from_json(const Json& json, Join& join) {
  join.protocol = json.at("protocol").get<int>();
  if (join.protocol != kProtocol) {
    return;  // other fields may have another meaning; the leader rejects the agent
  }
  join.name = json.at("name").get<std::string>();
  join.machine = json.at("machine").get<std::string>();
  const int node = json.at("node").get<int>();
  join.node = node == kNoNode ? std::nullopt : std::optional(node);
  join.sort_key = json.at("sort_key").get<int>();
  join.workers = json.at("workers").get<int>();
  join.cores = json.at("cores").get<int>();
  join.gpus = json.at("gpus").get<int>();
  join.addresses = json.at("addresses").get<std::vector<cluster::Address>>();
  join.probe_port = json.at("probe_port").get<int>();
  join.fault = json.at("fault").get<std::string>();
  join.fault_code = json.at("fault_code").get<int>();
}

static void to_json(Json& json, const Kill& /*kill*/) {
  json = Json::object();
}
static void from_json(const Json& /*json*/, Kill& /*kill*/) {}

namespace {

// Output is most of the traffic, so Said has a fixed header instead of CBOR:
//   byte 0      'S' (free: the kinds of Report end before it)
//   byte 1      stream: 'o' stdout, 'e' stderr
//   byte 2      's' status line, 'l' lines
//   bytes 3-6   rank, uint32 in host byte order; -1 as 0xffffffff
//   bytes 7...  text
constexpr size_t kSaidHead = 7;

std::string encode_said(const Said& said) {
  std::string bytes(kSaidHead, '\0');
  bytes[0] = 'S';
  bytes[1] = said.stream == Stream::Out ? 'o' : 'e';
  bytes[2] = said.is_status ? 's' : 'l';
  const auto rank = static_cast<uint32_t>(said.rank);
  std::memcpy(bytes.data() + 3, &rank, sizeof(rank));
  return bytes + said.text;
}

Said decode_said(std::string_view bytes) {
  const bool is_head = bytes.size() >= kSaidHead && (bytes[1] == 'o' || bytes[1] == 'e') &&
                       (bytes[2] == 's' || bytes[2] == 'l');
  if (!is_head) {
    throw Error(ExitCode::Bug, "cannot decode a message: invalid header");
  }
  uint32_t rank = 0;
  std::memcpy(&rank, bytes.data() + 3, sizeof(rank));
  return {.rank = static_cast<int>(rank),
          .stream = bytes[1] == 'o' ? Stream::Out : Stream::Err,
          .is_status = bytes[2] == 's',
          .text = std::string(bytes.substr(kSaidHead))};
}

// The first byte is the index in the variant.
template <typename Variant>
std::string encode_kind(const Variant& message) {
  std::string bytes(1, static_cast<char>('A' + static_cast<char>(message.index())));
  std::visit(
      [&bytes](const auto& value) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, Said>) {
          Json::to_cbor(Json(value), bytes);
        }
      },
      message);
  return bytes;
}

// A chain of comparisons that the compiler generates from the variant: the type for index `kind` is
// known at run time only.
template <typename Variant, size_t I = 0>
Variant decode_kind(size_t kind, const Json& json) {
  if constexpr (I < std::variant_size_v<Variant>) {
    using Kind = std::variant_alternative_t<I, Variant>;
    if constexpr (!std::is_same_v<Kind, Said>) {
      if (kind == I) {
        return json.get<Kind>();
      }
    }
    return decode_kind<Variant, I + 1>(kind, json);
  } else {
    throw Error(ExitCode::Bug, fmt::format("cannot decode a message: unknown kind {}", kind));
  }
}

// Rejects values that are nested deeper than any message. The parser is recursive, and a message of
// open brackets only would overflow its stack.
class DepthCheck : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool key(string_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*count*/) override { return ++depth_ <= kDeepest; }
  bool start_array(std::size_t /*count*/) override { return ++depth_ <= kDeepest; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const Json::exception& fault) override {
    fault_ = fault.what();
    return false;
  }

  const std::string& fault() const { return fault_; }

 private:
  static constexpr int kDeepest = 16;
  int depth_ = 0;
  std::string fault_ = "nested too deeply";
};

template <typename Variant>
Variant decode(std::string_view bytes) {
  const size_t kind = bytes.empty() ? SIZE_MAX : static_cast<unsigned char>(bytes[0]) - size_t{'A'};
  const std::string_view body = bytes.substr(bytes.empty() ? 0 : 1);
  DepthCheck check;
  if (!Json::sax_parse(body.begin(), body.end(), &check, Json::input_format_t::cbor)) {
    throw Error(ExitCode::Bug, "cannot decode a message").fact("reason", check.fault());
  }
  try {
    return decode_kind<Variant>(kind, Json::from_cbor(body.begin(), body.end()));
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Bug, "cannot decode a message").fact("reason", fault.what());
  }
}

}  // namespace

std::string encode(const Report& report) {
  const auto* said = std::get_if<Said>(&report);
  return said != nullptr ? encode_said(*said) : encode_kind(report);
}

std::string encode(const Command& command) {
  return encode_kind(command);
}

Report decode_report(std::string_view bytes) {
  return bytes.starts_with('S') ? Report(decode_said(bytes)) : decode<Report>(bytes);
}

Command decode_command(std::string_view bytes) {
  return decode<Command>(bytes);
}

}  // namespace lockstep::supervisor
