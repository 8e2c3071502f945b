// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/control.h"
#include "lockstep/error.h"

// Replaces control.cpp in a build without ZeroMQ. A run then has one node.
namespace lockstep::supervisor {
namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::Unavailable, "cannot run on several nodes: built without ZeroMQ")
      .hint("apt install libzmq3-dev cppzmq-dev libsodium-dev, then rebuild lockstep");
}

}  // namespace

bool has_control_plane() {
  return false;
}
ControlKeys make_keys() {
  refuse();
}
ControlKeys derive_keys(const std::string& /*secret*/, const std::string& /*rendezvous*/) {
  refuse();
}
std::array<uint8_t, 32> probe_secret(const ControlKeys& /*keys*/) {
  refuse();
}

// The destructors of the public classes need complete types.
class ControlServer::Wire {};
ControlServer::ControlServer(const ControlKeys& /*keys*/, int /*port*/) {
  refuse();
}
ControlServer::~ControlServer() = default;
int ControlServer::port() const {
  refuse();
}
std::vector<int> ControlServer::fds() const {
  refuse();
}
std::optional<ControlServer::News> ControlServer::poll() {
  refuse();
}
void ControlServer::send(const std::string& /*peer*/, const std::string& /*message*/) {
  refuse();
}
int ControlServer::rejected() const {
  refuse();
}

class ControlClient::Wire {};
ControlClient::ControlClient(const ControlKeys& /*keys*/,
                             const std::vector<Endpoint>& /*endpoints*/) {
  refuse();
}
ControlClient::~ControlClient() = default;
std::vector<int> ControlClient::fds() const {
  refuse();
}
std::optional<ControlClient::News> ControlClient::poll() {
  refuse();
}
void ControlClient::send(const std::string& /*message*/) {
  refuse();
}
std::optional<Endpoint> ControlClient::endpoint() const {
  refuse();
}

}  // namespace lockstep::supervisor
