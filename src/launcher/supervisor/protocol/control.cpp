// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/control.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include "common/base/check.h"
#include "common/os/socket.h"
#include "launcher/supervisor/protocol/secrets.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

// Heartbeats (ZMTP PING and PONG) every kBeatMs. A connection is closed if nothing arrives within
// kSilenceMs after a PING, so a peer that loses power or network is detected after at most kBeatMs
// + kSilenceMs = 3 s. The I/O thread of ZeroMQ answers them: a busy agent is not taken for a dead
// one, a stopped one (SIGSTOP) is.
constexpr int kBeatMs = 500;
constexpr int kSilenceMs = 2500;
constexpr int kHandshakeMs = 5000;    // a connection that does not authenticate is closed then
constexpr int kLingerMs = 2000;       // time for queued messages when a socket is closed
constexpr int kSpareLingerMs = 1000;  // see keep_only()
constexpr int64_t kLongestMessage = int64_t{64} << 20;
constexpr const char* kHello = "hello";
// Z85 (https://rfc.zeromq.org/spec/32) encodes four bytes as five characters.
constexpr size_t kKeyText = 40;
constexpr size_t kKeyBytes = 32;
static_assert(kKeyText == kKeyBytes / 4 * 5);

std::pair<std::string, std::string> make_pair() {
  std::array<char, kKeyText + 1> open{};
  std::array<char, kKeyText + 1> secret{};
  if (zmq_curve_keypair(open.data(), secret.data()) != 0) {
    throw Error(ExitCode::Unavailable, "cannot create keys: ZeroMQ was built without CURVE");
  }
  return {open.data(), secret.data()};
}

std::pair<std::string, std::string> derive_pair(const std::string& secret,
                                                const std::string& what) {
  const SecretKey bytes = derive_key(secret, what);
  static_assert(sizeof(SecretKey) == kKeyBytes);
  std::array<char, kKeyText + 1> text{};
  zmq_z85_encode(text.data(), bytes.data(), bytes.size());
  std::array<char, kKeyText + 1> open{};
  zmq_curve_public(open.data(), text.data());
  return {open.data(), text.data()};
}

std::string to_bytes(const std::string& z85) {
  std::array<uint8_t, kKeyBytes> bytes{};
  LOCKSTEP_CHECK(zmq_z85_decode(bytes.data(), z85.c_str()) != nullptr);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void set_common(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, kLingerMs);
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::heartbeat_ivl, kBeatMs);
  socket.set(zmq::sockopt::heartbeat_timeout, kSilenceMs);
  socket.set(zmq::sockopt::heartbeat_ttl, kSilenceMs);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::maxmsgsize, kLongestMessage);
  // No limit on queued messages: beyond a limit they would be dropped. Output, the only large
  // traffic, is limited by Credit instead.
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.set(zmq::sockopt::rcvhwm, 0);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
}

template <typename News>
std::optional<News> find_first(std::deque<News>& queue) {
  if (queue.empty()) {
    return std::nullopt;
  }
  News first = std::move(queue.front());
  queue.pop_front();
  return first;
}

// An event of zmq_socket_monitor(): its kind, and a value that is a file descriptor here.
struct SocketEvent {
  uint16_t kind = 0;
  int value = 0;
};

// Reads connection events of a socket. ZeroMQ sends them as two frames (zmq_socket_monitor(3)):
//   frame 1: event (uint16), value (int32), both in host byte order, without padding
//   frame 2: the endpoint, which is not needed here
class Monitor {
 public:
  Monitor(zmq::context_t& context, zmq::socket_t& socket, const std::string& name)
      : reader_(context, zmq::socket_type::pair) {
    const std::string address = "inproc://monitor-" + name;
    constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
    if (zmq_socket_monitor(socket.handle(), address.c_str(), kEvents) != 0) {
      throw Error(ExitCode::Bug, "cannot monitor a ZeroMQ socket")
          .fact("reason", zmq_strerror(errno));
    }
    reader_.set(zmq::sockopt::linger, 0);
    reader_.connect(address);
  }

  int fd() const { return reader_.get(zmq::sockopt::fd); }

  std::optional<SocketEvent> find() {
    zmq::message_t head;
    if (!reader_.recv(head, zmq::recv_flags::dontwait)) {
      return std::nullopt;
    }
    SocketEvent event;
    LOCKSTEP_CHECK(head.size() >= 6);
    int32_t value = 0;
    std::memcpy(&event.kind, head.data(), sizeof(event.kind));
    std::memcpy(&value, static_cast<const char*>(head.data()) + 2, sizeof(value));
    event.value = value;
    zmq::message_t address;
    (void)reader_.recv(address, zmq::recv_flags::dontwait);
    return event;
  }

 private:
  zmq::socket_t reader_;
};

}  // namespace

bool has_control_plane() {
  return zmq_has("curve") != 0;
}

ControlKeys make_keys() {
  ControlKeys keys;
  std::tie(keys.server_public, keys.server_secret) = make_pair();
  std::tie(keys.client_public, keys.client_secret) = make_pair();
  return keys;
}

ControlKeys derive_keys(const std::string& secret, const std::string& rendezvous) {
  ControlKeys keys;
  std::tie(keys.server_public, keys.server_secret) = derive_pair(secret, "leader " + rendezvous);
  std::tie(keys.client_public, keys.client_secret) = derive_pair(secret, "agent " + rendezvous);
  return keys;
}

std::array<uint8_t, 32> probe_secret(const ControlKeys& keys) {
  return derive_key(keys.client_secret, "probe");
}

// ---- the side of the leader ----

class ControlServer::Wire {
 public:
  Wire(const ControlKeys& keys, int port)
      : client_key_(to_bytes(keys.client_public)),
        gate_(context_, zmq::socket_type::rep),
        router_(context_, zmq::socket_type::router) {
    gate_.set(zmq::sockopt::linger, 0);
    gate_.bind("inproc://zeromq.zap.01");  // before the router: connections ask here
    set_common(router_);
    // A client that reconnects with its routing id replaces its old connection.
    router_.set(zmq::sockopt::router_handover, true);
    router_.set(zmq::sockopt::zap_domain, "lockstep");
    router_.set(zmq::sockopt::curve_server, true);
    router_.set(zmq::sockopt::curve_secretkey, keys.server_secret);
    router_.set(zmq::sockopt::backlog, 4096);
    monitor_.emplace(context_, router_, "server");
    try {
      router_.bind(port == 0 ? std::string("tcp://*:*") : fmt::format("tcp://*:{}", port));
    } catch (const zmq::error_t& fault) {
      throw Error(ExitCode::Unavailable, fmt::format("cannot listen on port {}", port))
          .fact("reason", fault.what())
          .hint("choose another port, or stop the run that uses this one");
    }
    const std::string bound = router_.get(zmq::sockopt::last_endpoint);
    port_ = std::stoi(bound.substr(bound.rfind(':') + 1));
  }

  int port() const { return port_; }
  int rejected() const { return rejected_; }

  std::vector<int> fds() const {
    return {router_.get(zmq::sockopt::fd), gate_.get(zmq::sockopt::fd), monitor_->fd()};
  }

  std::optional<News> poll() {
    if (news_.empty()) {
      pump();
    }
    return find_first(news_);
  }

  void send(const std::string& peer, const std::string& message) {
    try {
      router_.send(zmq::buffer(peer), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
      router_.send(zmq::buffer(message), zmq::send_flags::dontwait);
    } catch (const zmq::error_t&) {
      // The peer has disconnected, and Closed follows.
    }
  }

 private:
  // A connection that has ended. `peer` is empty if it had not sent a message before this pump().
  struct End {
    int fd = 0;
    std::string peer;
    std::string address;
  };

  // Three sources, read in an order that keeps three promises:
  //
  // 1. Closed follows the last message of its peer. The I/O thread queues a message before it
  //    reports the end of the connection. All messages of a connection whose end is read here are
  //    therefore in the ROUTER queue already: read the events first, then the messages, and
  //    deliver the ends last.
  // 2. An end is attributed to the right peer. Events name connections by file descriptor, and the
  //    kernel may have given the number to a new connection already. The peer is therefore looked
  //    up while the events are read in their order, when peers_ still describes the old connection.
  // 3. A rejection names the address. The address is known only while the connection is open, and
  //    ZeroMQ closes it as soon as the gate (ZAP) rejects its key. One I/O thread queues the
  //    acceptance of a connection before its request to the gate: the events that precede a request
  //    are therefore read before it is answered.
  //
  // The gate comes first, because no handshake completes without its answer.
  void pump() {
    std::vector<End> ends;
    while (const auto request = find_gate_request()) {
      read_events(ends);
      answer_gate(*request);
    }
    read_events(ends);
    while (take_message(ends)) {
    }
    for (const End& end : ends) {
      take_end(end);
    }
  }

  void read_events(std::vector<End>& ends) {
    while (const auto event = monitor_->find()) {
      const int fd = event->value;
      if (event->kind == ZMQ_EVENT_ACCEPTED) {
        // A stranger that disconnects without a handshake may be gone already.
        addresses_[fd] = os::find_peer_address(fd).value_or("an unknown address");
        peers_.erase(fd);
      } else if (event->kind == ZMQ_EVENT_DISCONNECTED) {
        ends.push_back({fd, std::exchange(peers_[fd], ""), std::exchange(addresses_[fd], "")});
        peers_.erase(fd);
        addresses_.erase(fd);
      }
    }
  }

  // An authentication request of ZeroMQ (ZAP, https://rfc.zeromq.org/spec/27):
  //   version, request id, domain, address, identity, mechanism "CURVE", client key (32 B)
  std::optional<std::vector<zmq::message_t>> find_gate_request() {
    std::vector<zmq::message_t> frames;
    for (bool more = true; more;) {
      zmq::message_t frame;
      if (!gate_.recv(frame, zmq::recv_flags::dontwait)) {
        return std::nullopt;
      }
      more = frame.more();
      frames.push_back(std::move(frame));
    }
    return frames;
  }

  // CURVE has verified that the client owns the secret key of the public key in the request; here
  // that public key must be the one of the run.
  //   reply: version, request id, status code, status text, user id, metadata
  void answer_gate(const std::vector<zmq::message_t>& request) {
    const bool is_curve = request.size() == 7 && request[5].to_string() == "CURVE";
    const bool is_ours = is_curve && request[6].to_string() == client_key_;
    const std::string id = request.size() > 1 ? request[1].to_string() : "";
    const std::array<std::string, 6> answer = {
        "1.0", id, is_ours ? "200" : "400", is_ours ? "" : "not of this run", "", ""};
    for (size_t i = 0; i < answer.size(); ++i) {
      gate_.send(zmq::buffer(answer.at(i)),
                 i + 1 < answer.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }

  bool take_message(const std::vector<End>& ends) {
    zmq::message_t peer;
    zmq::message_t body;
    if (!router_.recv(peer, zmq::recv_flags::dontwait)) {
      return false;
    }
    bool more = peer.more();
    bool is_first = true;
    while (more) {
      zmq::message_t frame;
      (void)router_.recv(frame);
      more = frame.more();
      if (is_first) {
        body = std::move(frame);
        is_first = false;
      }
    }
    // A peer whose end was read in this pump() must not be entered again: its descriptor is free or
    // belongs to another connection.
    const int fd = zmq_msg_get(body.handle(), ZMQ_SRCFD);
    const std::string name = peer.to_string();
    const bool is_gone =
        std::any_of(ends.begin(), ends.end(), [&name](const End& end) { return end.peer == name; });
    if (!is_gone) {
      peers_[fd] = name;
    }
    if (body.to_string_view() == kHello) {
      send(name, kHello);
    } else {
      news_.push_back({News::Kind::Message, name, body.to_string()});
    }
    return true;
  }

  void take_end(const End& end) {
    std::string peer = end.peer;
    const bool is_taken_again = addresses_.contains(end.fd);
    if (peer.empty() && !is_taken_again) {
      peer = std::exchange(peers_[end.fd], "");  // all of its messages were read in this pump()
      peers_.erase(end.fd);
    }
    // A connection that never delivered a message did not pass the handshake.
    if (!peer.empty()) {
      news_.push_back({News::Kind::Closed, peer, "connection closed"});
    } else {
      ++rejected_;
      news_.push_back({News::Kind::Rejected, "", end.address});
    }
  }

  std::string client_key_;
  zmq::context_t context_{1};
  zmq::socket_t gate_;
  zmq::socket_t router_;
  std::optional<Monitor> monitor_;
  int port_ = 0;
  int rejected_ = 0;
  std::map<int, std::string> addresses_;  // open connections, by descriptor
  std::map<int, std::string> peers_;      // those that have sent a message, by descriptor
  std::deque<News> news_;
};

ControlServer::ControlServer(const ControlKeys& keys, int port)
    : wire_(std::make_unique<Wire>(keys, port)) {}
ControlServer::~ControlServer() = default;
int ControlServer::port() const {
  return wire_->port();
}
std::vector<int> ControlServer::fds() const {
  return wire_->fds();
}
std::optional<ControlServer::News> ControlServer::poll() {
  return wire_->poll();
}
void ControlServer::send(const std::string& peer, const std::string& message) {
  wire_->send(peer, message);
}
int ControlServer::rejected() const {
  return wire_->rejected();
}

// ---- the side of an agent ----

class ControlClient::Wire {
 public:
  Wire(const ControlKeys& keys, const std::vector<Endpoint>& endpoints) {
    std::array<uint8_t, 8> random{};
    fill_random(random);
    std::string name;
    for (const uint8_t byte : random) {
      name += fmt::format("{:02x}", byte);
    }
    for (size_t i = 0; i < endpoints.size(); ++i) {
      add_line(keys, endpoints[i], fmt::format("{}-{}", name, i));
    }
    pump();  // the descriptors are edge-triggered and signal only after a first read
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  ~Wire() {
    if (!is_connected_) {  // no leader waits for the queued "hello"
      constexpr int kAtOnce = 0;
      for (const auto& line : lines_) {
        zmq_setsockopt(line->socket.handle(), ZMQ_LINGER, &kAtOnce, sizeof(kAtOnce));
      }
    }
  }

  std::vector<int> fds() const {
    std::vector<int> all;
    for (const auto& line : lines_) {
      all.push_back(line->socket.get(zmq::sockopt::fd));
      all.push_back(line->monitor.fd());
    }
    return all;
  }

  std::optional<News> poll() {
    if (news_.empty()) {
      pump();
    }
    return find_first(news_);
  }

  void send(const std::string& message) {
    if (is_connected_) {
      lines_.front()->socket.send(zmq::buffer(message), zmq::send_flags::dontwait);
    }
  }

  std::optional<Endpoint> endpoint() const {
    return is_connected_ ? std::optional(lines_.front()->endpoint) : std::nullopt;
  }

 private:
  // One connection per endpoint; after Connected only one is left.
  struct Line {
    Line(zmq::context_t& context, Endpoint to, const std::string& name)
        : endpoint(std::move(to)),
          socket(context, zmq::socket_type::dealer),
          monitor(context, socket, name) {}
    Endpoint endpoint;
    zmq::socket_t socket;
    Monitor monitor;
  };

  void add_line(const ControlKeys& keys, const Endpoint& to, const std::string& name) {
    auto line = std::make_unique<Line>(context_, to, name);
    set_common(line->socket);
    line->socket.set(zmq::sockopt::routing_id, name);
    line->socket.set(zmq::sockopt::curve_serverkey, keys.server_public);
    line->socket.set(zmq::sockopt::curve_publickey, keys.client_public);
    line->socket.set(zmq::sockopt::curve_secretkey, keys.client_secret);
    line->socket.set(zmq::sockopt::reconnect_ivl, 50);
    line->socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
    const bool is_v6 = to.address.find(':') != std::string::npos;
    line->socket.connect(is_v6 ? fmt::format("tcp://[{}]:{}", to.address, to.port)
                               : fmt::format("tcp://{}:{}", to.address, to.port));
    line->socket.send(zmq::buffer(std::string_view(kHello)), zmq::send_flags::dontwait);
    lines_.push_back(std::move(line));
  }

  // The monitor is read before the socket, so that a message which arrives before the end of the
  // connection is delivered before Closed. The events of a connection attempt are ignored until the
  // leader has answered: ZeroMQ reconnects by itself.
  void pump() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      Line& line = *lines_[i];
      bool is_closed = false;
      while (const auto event = line.monitor.find()) {
        is_closed = is_closed || (event->kind == ZMQ_EVENT_DISCONNECTED && is_connected_);
      }
      zmq::message_t body;
      while (line.socket.recv(body, zmq::recv_flags::dontwait)) {
        const bool is_hello = body.to_string_view() == kHello;
        if (is_connected_ && !is_hello) {
          news_.push_back({News::Kind::Message, body.to_string()});
        } else if (!is_connected_ && is_hello) {
          keep_only(i);
          news_.push_back({News::Kind::Connected, ""});
          return;
        }
      }
      if (is_closed) {
        line.socket.set(zmq::sockopt::linger, 0);  // queued messages have no receiver any more
        news_.push_back({News::Kind::Closed, "the connection to the leader is closed"});
      }
    }
  }

  // The other connections linger, so that their handshakes can complete. The leader would report a
  // connection that is closed during the handshake as one without the keys.
  void keep_only(size_t chosen) {
    std::unique_ptr<Line> line = std::move(lines_[chosen]);
    for (auto& other : lines_) {
      if (other) {
        other->socket.set(zmq::sockopt::linger, kSpareLingerMs);
      }
    }
    lines_.clear();
    lines_.push_back(std::move(line));
    is_connected_ = true;
  }

  zmq::context_t context_{1};
  std::vector<std::unique_ptr<Line>> lines_;
  bool is_connected_ = false;
  std::deque<News> news_;
};

ControlClient::ControlClient(const ControlKeys& keys, const std::vector<Endpoint>& endpoints)
    : wire_(std::make_unique<Wire>(keys, endpoints)) {}
ControlClient::~ControlClient() = default;
std::vector<int> ControlClient::fds() const {
  return wire_->fds();
}
std::optional<ControlClient::News> ControlClient::poll() {
  return wire_->poll();
}
void ControlClient::send(const std::string& message) {
  wire_->send(message);
}
std::optional<Endpoint> ControlClient::endpoint() const {
  return wire_->endpoint();
}

}  // namespace lockstep::supervisor
