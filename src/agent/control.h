// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The wire between leader and agents: ZeroMQ with CURVE. Every run has fresh keys; a peer without
// them cannot join, read or stop a run.
namespace lockstep::agent {

// In Z85, as ZeroMQ takes them.
struct ControlKeys {
  std::string server_public;
  std::string server_secret;  // the leader's; empty at agents
  std::string client_public;
  std::string client_secret;

  bool operator==(const ControlKeys&) const = default;
};

ControlKeys make_keys();

// The same keys for everybody who knows `secret` and the name of the meeting.
ControlKeys derive_keys(const std::string& secret, const std::string& meeting);

// What the agents of a run prove to each other when they try their networks.
std::array<uint8_t, 32> probe_secret(const ControlKeys& keys);

// Whether this lockstep was built with ZeroMQ; without it a run has one node.
bool has_control_plane();

// The leader's end. One thread; what waits for it is told by fds().
class ControlServer {
 public:
  struct News {
    enum class Kind {
      Message,   // `peer` says `text`
      Closed,    // the connection of `peer` is closed, or it was silent for too long
      Rejected,  // somebody at address `text` without the keys was turned away
    };
    Kind kind = Kind::Message;
    std::string peer;
    std::string text;
  };

  // Listens on all addresses of this machine; port 0: a free one. Throws an Error (69) when the
  // port is taken.
  ControlServer(const ControlKeys& keys, int port);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  ~ControlServer();

  int port() const;

  // One of them becomes readable when there may be news. They tell of changes only: after that, and
  // after send(), find_news() must be called until it has none.
  std::vector<int> fds() const;
  std::optional<News> find_news();

  // Harmless when the peer has gone.
  void send(const std::string& peer, const std::string& message);

  // How many were turned away so far.
  int rejected() const;

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

struct Endpoint {
  std::string address;
  int port = 0;

  bool operator==(const Endpoint&) const = default;
};

// An agent's end. One thread.
class ControlClient {
 public:
  struct News {
    enum class Kind { Connected, Message, Closed };
    Kind kind = Kind::Message;
    std::string text;
  };

  // Tries all endpoints at once; the first on which the leader answers stays.
  ControlClient(const ControlKeys& keys, const std::vector<Endpoint>& endpoints);
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;
  ~ControlClient();

  std::vector<int> fds() const;
  std::optional<News> find_news();
  void send(const std::string& message);

  // On which the leader has answered.
  std::optional<Endpoint> endpoint() const;

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace lockstep::agent
