// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The transport of the control plane: ZeroMQ (ROUTER at the leader, DEALER at agents) with CURVE
// encryption and authentication. Every run has its own keys. A peer without them cannot join, read
// or stop the run.
//
// Messages are opaque here; messages.h defines them. The transport adds one message of its
// own, "hello": a client sends it on every connection, and the server echoes it. The echo proves
// that the address works in both directions and that the keys are right.
namespace lockstep::supervisor {

// Key pairs in Z85 encoding (40 characters), as ZeroMQ expects them.
struct ControlKeys {
  std::string server_public;
  std::string server_secret;  // of the leader; empty at agents
  std::string client_public;  // one pair for all agents of a run
  std::string client_secret;

  bool operator==(const ControlKeys&) const = default;
};

ControlKeys make_keys();

// Keys that depend only on `secret` and the name of the rendezvous, so that nodes without a shared
// file system derive the same ones.
ControlKeys derive_keys(const std::string& secret, const std::string& rendezvous);

// The key with which the agents of a run authenticate network probes (reachability.h).
std::array<uint8_t, 32> probe_secret(const ControlKeys& keys);

// Whether lockstep was built with ZeroMQ and CURVE. Without them a run has one node.
bool has_control_plane();

// The side of the leader. Not thread-safe; never blocks.
class ControlServer {
 public:
  struct News {
    enum class Kind {
      Message,   // `text` from `peer`
      Closed,    // `peer` disconnected, or its heartbeat timed out; follows all of its messages
      Rejected,  // a connection from address `text` that did not have the keys
    };
    Kind kind = Kind::Message;
    std::string peer;  // routing id of the client, unique per ControlClient
    std::string text;
  };

  // Listens on all addresses of this machine. Port 0 selects a free port. Throws an Error (69) if
  // the port is in use.
  ControlServer(const ControlKeys& keys, int port);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  ~ControlServer();

  int port() const;

  // Descriptors to watch for reading. They are edge-triggered: after one becomes readable, and
  // after every send(), call poll() until it returns nothing. Otherwise news that is already
  // here might not wake up the caller again.
  std::vector<int> fds() const;
  std::optional<News> poll();

  // Queues the message. Has no effect if the peer has disconnected.
  void send(const std::string& peer, const std::string& message);

  // Number of rejected connections so far.
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

// The side of an agent. Not thread-safe; never blocks.
class ControlClient {
 public:
  struct News {
    enum class Kind { Connected, Message, Closed };
    Kind kind = Kind::Message;
    std::string text;
  };

  // Connects to all endpoints at once and keeps the first on which the leader answers. Reports this
  // as Connected; messages sent before are dropped.
  ControlClient(const ControlKeys& keys, const std::vector<Endpoint>& endpoints);
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;
  ~ControlClient();

  std::vector<int> fds() const;
  std::optional<News> poll();
  void send(const std::string& message);

  // The endpoint on which the leader answered; nothing before Connected.
  std::optional<Endpoint> endpoint() const;

 private:
  class Wire;
  std::unique_ptr<Wire> wire_;
};

}  // namespace lockstep::supervisor
