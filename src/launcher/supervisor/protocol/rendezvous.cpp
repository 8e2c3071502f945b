// SPDX-License-Identifier: Apache-2.0
//
// The text of a rendezvous, one line of JSON, in a variable, on standard input or in a file:
//
//   {"format": 1, "endpoints": [["10.0.0.1", 41017], ...], "server_public": Z85,
//    "client_public": Z85, "client_secret": Z85, "node": 0 or -1,
//    "directory": [47, ...], "environment": [[NAME bytes], [VALUE bytes], ...]}
//
// It contains a secret key. Never log it, and never put it on a command line.
#include "launcher/supervisor/protocol/rendezvous.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/cluster/interfaces.h"
#include "common/contract/worker_env.h"
#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr int kNoNode = -1;

// A rendezvous name can be any text of the user (--rdzv-id) or "host:port". It must not leave the
// directory, so '/' is replaced as well.
std::string to_file_name(std::string name) {
  std::replace_if(
      name.begin(),
      name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.' && c != '_'; },
      '-');
  return name + ".json";
}

// A path or a variable may contain any bytes, but JSON strings are UTF-8: one number per byte.
Json to_numbers(const std::string& text) {
  Json numbers = Json::array();
  for (const char byte : text) {
    numbers.push_back(static_cast<unsigned char>(byte));
  }
  return numbers;
}

std::string to_text(const Json& numbers) {
  const auto bytes = numbers.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

// A key of another length would fail later, with a message that does not name it.
std::string read_key(const Json& json, const char* name) {
  constexpr size_t kKeyText = 40;
  auto key = json.at(name).get<std::string>();
  if (key.size() != kKeyText) {
    throw Error(ExitCode::Io, fmt::format("cannot read the rendezvous: {} is not a key", name));
  }
  return key;
}

}  // namespace

std::string encode(const RendezvousPoint& point) {
  Json endpoints = Json::array();
  for (const Endpoint& endpoint : point.endpoints) {
    endpoints.push_back({endpoint.address, endpoint.port});
  }
  Json json = {{"format", kFormat},
               {"endpoints", endpoints},
               {"server_public", point.keys.server_public},
               {"client_public", point.keys.client_public},
               {"client_secret", point.keys.client_secret},
               {"node", point.node.value_or(kNoNode)},
               {"directory", to_numbers(point.directory)}};
  json["environment"] = Json::array();
  for (const auto& [name, value] : point.environment) {
    json["environment"].push_back(to_numbers(name));
    json["environment"].push_back(to_numbers(value));
  }
  return json.dump();
}

RendezvousPoint decode_rendezvous_point(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (const int format = json.at("format").get<int>(); format != kFormat) {
      throw Error(ExitCode::Io, "cannot read the rendezvous: it has another format")
          .fact("expected", std::to_string(kFormat))
          .fact("found", std::to_string(format))
          .hint("install the same version of lockstep on every node");
    }
    RendezvousPoint point;
    for (const Json& endpoint : json.at("endpoints")) {
      point.endpoints.push_back({endpoint.at(0).get<std::string>(), endpoint.at(1).get<int>()});
    }
    point.keys.server_public = read_key(json, "server_public");
    point.keys.client_public = read_key(json, "client_public");
    point.keys.client_secret = read_key(json, "client_secret");
    const int node = json.at("node").get<int>();
    point.node = node == kNoNode ? std::nullopt : std::optional(node);
    point.directory = to_text(json.at("directory"));
    const Json& variables = json.at("environment");
    for (size_t i = 0; i + 1 < variables.size(); i += 2) {
      point.environment.emplace(to_text(variables[i]), to_text(variables[i + 1]));
    }
    return point;
  } catch (const Json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the rendezvous").fact("reason", fault.what());
  }
}

// Loopback is last, but not left out: agents on the same machine may have no other address.
std::vector<Endpoint> own_endpoints(int port) {
  std::vector<Endpoint> endpoints;
  const std::vector<cluster::Address> addresses = cluster::list_addresses();
  for (const bool is_loopback : {false, true}) {
    for (const cluster::Address& address : addresses) {
      if (address.is_loopback == is_loopback) {
        endpoints.push_back({address.text, port});
      }
    }
  }
  return endpoints;
}

// A directory of the user, not /tmp: it must be private, and for several nodes it must be shared.
// Home directories on clusters usually are both.
fs::path rendezvous_path(const plan::Rendezvous& rendezvous, const os::Environment& environment) {
  fs::path folder;
  if (const auto own = os::find_variable(environment, contract::kRendezvousDirectory)) {
    folder = *own;
  } else if (const auto state = os::find_variable(environment, "XDG_STATE_HOME")) {
    folder = fs::path(*state) / "lockstep";
  } else if (const auto home = os::find_variable(environment, "HOME")) {
    folder = fs::path(*home) / ".local" / "state" / "lockstep";
  } else {
    throw Error(ExitCode::Usage, "no directory for the rendezvous file: HOME is not set")
        .hint(fmt::format("export {}=DIR, a directory that all nodes share",
                          contract::kRendezvousDirectory));
  }
  return folder / to_file_name(rendezvous.name);
}

// Posted after the server listens (the point has its port), so a reader can connect at once.
RendezvousFile::RendezvousFile(fs::path file, const RendezvousPoint& point)
    : file_(std::move(file)), text_(encode(point)) {
  os::make_directories(file_.parent_path());
  os::write_private(file_, text_);
}

RendezvousFile::~RendezvousFile() {
  // Another run with the same name may have replaced the file.
  const auto now = os::find_private(file_);
  if (now == text_) {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }
}

std::optional<RendezvousPoint> find_rendezvous_in(const fs::path& file) {
  const auto text = os::find_private(file);
  try {
    return text ? std::optional(decode_rendezvous_point(*text)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // left by another version of lockstep; node 0 will replace it
  }
}

}  // namespace lockstep::supervisor
