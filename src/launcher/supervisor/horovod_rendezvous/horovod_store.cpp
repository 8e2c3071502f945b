// SPDX-License-Identifier: Apache-2.0
//
// A thread of its own, and not the reactor of the agent: Horovod workers poll the store while they
// start, which must not delay signals and exits of workers. The thread shares nothing with the
// agent but alarm_, whose write end the destructor closes to end it.
//
// A connection carries one request, as in Horovod's own server:
//
//   accept --> read until the request is complete --> write the answer --> close
//                                       kPatience after accept: close
#include "launcher/supervisor/horovod_rendezvous/horovod_store.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/pipe.h"
#include "common/os/tcp_listener.h"
#include "launcher/supervisor/horovod_rendezvous/key_value_http.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

using Clock = std::chrono::steady_clock;

// A worker sends its request within a fraction of a millisecond.
constexpr std::chrono::seconds kPatience(3);
constexpr size_t kMaxConnections = 128;
constexpr size_t kReadBytes = size_t{16} << 10U;

struct Connection {
  os::Fd socket;
  Clock::time_point deadline;
  RequestReader reader;
  std::string answer;  // empty until the request is complete
  size_t sent = 0;
};

}  // namespace

class HorovodStore::Server {
 public:
  Server(const std::string& address, int port)
      : listener_(address, port), alarm_(os::make_pipe()), thread_([this] { serve(); }) {}

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  ~Server() {
    alarm_.in.close();
    thread_.join();
  }

  int port() const { return listener_.port(); }

 private:
  // Runs until the write end of alarm_ is closed. watches[2 + i] belongs to the i-th connection:
  // std::erase_if visits a list in order, and calls the predicate once per element. New connections
  // are accepted after that, so they have no entry yet.
  void serve() {
    for (;;) {
      std::vector<os::Watch> watches = {{.fd = alarm_.out.number()}, {.fd = listener_.fd()}};
      for (const Connection& connection : connections_) {
        watches.push_back(
            {.fd = connection.socket.number(), .for_write = !connection.answer.empty()});
      }
      os::wait_for(watches, time_to_wait());
      if (watches[0].is_ready) {
        return;
      }
      size_t at = 2;
      std::erase_if(connections_, [&](Connection& connection) {
        return (watches[at++].is_ready && !go_on(connection)) || Clock::now() > connection.deadline;
      });
      take_new_ones();
    }
  }

  // All connections have the same patience, so the oldest one has the next deadline.
  std::optional<std::chrono::milliseconds> time_to_wait() const {
    if (connections_.empty()) {
      return std::nullopt;
    }
    const auto left = connections_.front().deadline - Clock::now();
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(left),
                    std::chrono::milliseconds(1));
  }

  // At the limit the oldest connection is closed: it never sent a request.
  void take_new_ones() {
    for (size_t taken = 0; taken < kMaxConnections; ++taken) {
      auto socket = listener_.find_connection();
      if (!socket) {
        return;
      }
      if (connections_.size() == kMaxConnections) {
        connections_.pop_front();
      }
      connections_.push_back({std::move(*socket), Clock::now() + kPatience, {}, {}, 0});
      // The request has usually arrived together with the connection.
      if (!go_on(connections_.back())) {
        connections_.pop_back();
      }
    }
  }

  // False if the connection is finished.
  bool go_on(Connection& connection) {
    if (connection.answer.empty()) {
      buffer_.clear();
      const auto result = os::read_some(connection.socket.number(), buffer_, kReadBytes);
      if (result == os::ReadResult::End) {
        return false;
      }
      if (const auto status = connection.reader.take(buffer_)) {
        connection.answer =
            *status == 200 ? values_.answer(connection.reader) : to_response(*status);
      }
    }
    const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
    const auto sent = rest.empty() ? 0 : os::send_some(connection.socket.number(), rest);
    connection.sent += sent.value_or(0);
    return sent && (connection.answer.empty() || connection.sent < connection.answer.size());
  }

  os::TcpListener listener_;
  os::Pipe alarm_;
  KeyValues values_;                   // used by the thread only
  std::list<Connection> connections_;  // the oldest first
  std::string buffer_;
  std::jthread thread_;  // last member, because it uses all the others
};

HorovodStore::HorovodStore() = default;
HorovodStore::~HorovodStore() = default;

bool HorovodStore::start(const std::string& address, int port) {
  stop();
  try {
    server_ = std::make_unique<Server>(address, port);
  } catch (const Error&) {
    // Does not matter without Horovod. With Horovod its workers report that they cannot connect.
    return false;
  }
  return true;
}

void HorovodStore::stop() {
  server_.reset();
}

int HorovodStore::port() const {
  return server_ ? server_->port() : 0;
}

}  // namespace lockstep::supervisor
