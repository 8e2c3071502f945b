// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/horovod_rendezvous/horovod_store.h"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/os/fd.h"
#include "support/shortest_of.h"

namespace lockstep::supervisor {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

os::Fd connect_to(int port) {
  os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    socket.close();
  }
  return socket;
}

void send_text(const os::Fd& socket, const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const auto count =
        ::send(socket.number(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) {
      return;
    }
    sent += static_cast<size_t>(count);
  }
}

std::string read_to_end(const os::Fd& socket) {
  std::string text;
  char buffer[4096];
  for (ssize_t count = 1; count > 0;) {
    count = ::recv(socket.number(), buffer, sizeof(buffer), 0);
    text.append(buffer, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  return text;
}

// Like the workers of Horovod: one connection per request, the same header for every method.
std::string ask(int port,
                const std::string& method,
                const std::string& path,
                const std::string& body = "") {
  const os::Fd socket = connect_to(port);
  send_text(socket,
            method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
  return read_to_end(socket);
}

class HorovodStores : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store_.start("127.0.0.1", 0)); }

  HorovodStore store_;
};

TEST_F(HorovodStores, LetWorkersMeet) {
  const int port = store_.port();

  EXPECT_THAT(ask(port, "GET", "/global/1"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(port, "PUT", "/global/1", "10.0.0.2:4711"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask(port, "GET", "/global/1"), EndsWith("\r\n\r\n10.0.0.2:4711"));
  EXPECT_THAT(ask(port, "DELETE", "/global/1"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask(port, "GET", "/global/1"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HorovodStores, CarryValuesOfAMebibyteAndNoMore) {
  const std::string large(1 << 20, 'x');

  EXPECT_THAT(ask(store_.port(), "PUT", "/s/k", large), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask(store_.port(), "GET", "/s/k"), EndsWith(large));

  const os::Fd socket = connect_to(store_.port());
  send_text(socket, "PUT /s/k HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_THAT(read_to_end(socket), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HorovodStores, RefuseGarbageAndGoOn) {
  for (const std::string text : {"\x16\x03\x01\x02\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"}) {
    const os::Fd socket = connect_to(store_.port());
    send_text(socket, text);
    EXPECT_THAT(read_to_end(socket), StartsWith("HTTP/1.1 400 "));
  }
  const os::Fd endless = connect_to(store_.port());
  send_text(endless, std::string(1 << 20, 'a'));

  EXPECT_THAT(ask(store_.port(), "PUT", "/s/k", "v"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HorovodStores, AreNotHeldUpByThoseThatNeverAsk) {
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int round = 0; round < 3; ++round) {
    std::vector<os::Fd> silent;
    for (int i = 0; i < 300; ++i) {
      silent.push_back(connect_to(store_.port()));
      send_text(silent.back(), "GET /s");
    }
    shortest =
        std::min(shortest, testing::shortest_of(1, [&] {
                   EXPECT_THAT(ask(store_.port(), "PUT", "/s/k", "v"), StartsWith("HTTP/1.1 200 "));
                 }));
    EXPECT_THAT(read_to_end(silent.front()), IsEmpty());  // the oldest was closed
  }

  EXPECT_LT(shortest, std::chrono::seconds(2));  // a silent connection is closed after 3 s
}

TEST_F(HorovodStores, ServeManyAtOnce) {
  constexpr int kWorkers = 16;
  std::vector<std::string> found(kWorkers);
  std::vector<std::jthread> workers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    workers.emplace_back([&, rank] {
      ask(store_.port(), "PUT", "/global/" + std::to_string(rank), "at " + std::to_string(rank));
      const std::string next = "/global/" + std::to_string((rank + 1) % kWorkers);
      std::string answer;
      for (int attempt = 0; attempt < 1000 && !answer.starts_with("HTTP/1.1 200 "); ++attempt) {
        answer = ask(store_.port(), "GET", next);
      }
      found[static_cast<size_t>(rank)] = answer;
    });
  }
  workers.clear();

  for (int rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(found[static_cast<size_t>(rank)],
                EndsWith("\r\n\r\nat " + std::to_string((rank + 1) % kWorkers)));
  }
}

TEST_F(HorovodStores, StopWhileAClientIsConnected) {
  const int port = store_.port();
  const os::Fd half = connect_to(port);
  send_text(half, "GET /s");

  store_.stop();

  EXPECT_EQ(store_.port(), 0);
  EXPECT_THAT(read_to_end(half), IsEmpty());
  EXPECT_FALSE(connect_to(port).is_open());
  EXPECT_TRUE(store_.start("127.0.0.1", port));
  EXPECT_EQ(store_.port(), port);
}

TEST_F(HorovodStores, DoNotStartWhereTheyCannotListen) {
  HorovodStore other;

  EXPECT_FALSE(other.start("127.0.0.1", store_.port()));
  EXPECT_FALSE(other.start("node-a", 0));
  EXPECT_FALSE(other.start("192.0.2.254", 0));
  EXPECT_EQ(other.port(), 0);
  other.stop();
}

TEST_F(HorovodStores, ListenAtNoOtherAddress) {
  os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(store_.port()));
  ASSERT_EQ(::inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);

  EXPECT_NE(
      ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

}  // namespace
}  // namespace lockstep::supervisor
