// SPDX-License-Identifier: Apache-2.0
// The real transport on loopback: accepted, rejected and lost peers.
#include "launcher/supervisor/protocol/control.h"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <memory>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <zmq.hpp>

#include "common/os/fd.h"
#include "common/os/process.h"
#include "support/comes_true.h"
#include "support/shortest_of.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = ControlServer::News::Kind;

// Connects to the port of the server, sends `text`, and waits until the server closes the
// connection or `patience` is over.
void speak(int port, const std::string& text, milliseconds patience = milliseconds(0)) {
  const os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  (void)::send(socket.number(), text.data(), text.size(), MSG_NOSIGNAL);
  timeval limit{.tv_sec = patience.count() / 1000, .tv_usec = patience.count() % 1000 * 1000};
  if (patience.count() > 0) {
    ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    char answer[256];
    while (::recv(socket.number(), answer, sizeof(answer), 0) > 0) {
    }
  }
}

class Control : public ::testing::Test {
 protected:
  // Serves until `is_enough`. Returns false after a timeout.
  bool serve_until(const std::function<bool()>& is_enough) {
    return lockstep::testing::comes_true([&] {
      while (const auto news = server.poll()) {
        if (news->kind == Kind::Message) {
          messages.push_back(news->text);
          peers.push_back(news->peer);
        } else if (news->kind == Kind::Closed) {
          closed.push_back(news->peer);
        } else {
          rejected.push_back(news->text);
        }
      }
      return is_enough();
    });
  }

  static bool is_connected(ControlClient& client) {
    while (const auto news = client.poll()) {
      if (news->kind == ControlClient::News::Kind::Connected) {
        return true;
      }
    }
    return false;
  }

  // A client with the right keys that has sent `text`.
  std::unique_ptr<ControlClient> connect(const std::string& text,
                                         const std::string& address = "127.0.0.1") {
    auto client = std::make_unique<ControlClient>(keys, std::vector<Endpoint>{{address, port()}});
    EXPECT_TRUE(serve_until([&] { return is_connected(*client); }));
    client->send(text);
    EXPECT_TRUE(serve_until([&] { return !messages.empty() && messages.back() == text; }));
    return client;
  }

  int port() const { return server.port(); }

  ControlKeys keys = make_keys();
  ControlServer server{keys, 0};
  std::vector<std::string> messages;
  std::vector<std::string> peers;
  std::vector<std::string> closed;
  std::vector<std::string> rejected;
};

TEST_F(Control, TakesWhoHasTheKeys) {
  const auto client = connect("over IPv4");
  EXPECT_EQ(client->endpoint()->address, "127.0.0.1");

  server.send(peers.back(), "an order");

  std::optional<ControlClient::News> news;
  EXPECT_TRUE(serve_until([&] { return (news = client->poll()).has_value(); }));
  EXPECT_EQ(news->text, "an order");
  EXPECT_EQ(server.rejected(), 0);
}

TEST_F(Control, TakesWhoComesOverIpv6) {
  const os::Fd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  if (::bind(probe.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    GTEST_SKIP() << "there is no IPv6 here";
  }

  connect("over IPv6", "::1");
}

TEST_F(Control, KeepsOneOfManyWaysAndTakesTheOthersForNoStrangers) {
  ControlClient client(
      keys,
      {{"127.0.0.1", port()}, {"127.0.0.2", port()}, {"127.0.0.3", port()}, {"127.0.0.4", 1}});
  EXPECT_TRUE(serve_until([&] { return is_connected(client); }));
  client.send("one");

  EXPECT_TRUE(serve_until([&] { return closed.size() == 2 && !messages.empty(); }));

  EXPECT_THAT(messages, ElementsAre("one"));
  EXPECT_THAT(rejected, ::testing::IsEmpty());
}

TEST_F(Control, TurnsAwayWhoHasAnotherKeyOfItsOwn) {
  ControlKeys wrong = keys;
  const ControlKeys others = make_keys();
  wrong.client_public = others.client_public;
  wrong.client_secret = others.client_secret;
  ControlClient stranger(wrong, {{"127.0.0.1", port()}});

  EXPECT_TRUE(serve_until([&] { return !rejected.empty(); }));

  EXPECT_THAT(rejected.front(), StartsWith("127.0.0.1"));
  EXPECT_FALSE(is_connected(stranger));
  connect("a friend");
  EXPECT_THAT(messages, ElementsAre("a friend"));
}

TEST_F(Control, TurnsAwayWhoExpectsAnotherServer) {
  ControlKeys wrong = keys;
  wrong.server_public = make_keys().server_public;
  ControlClient stranger(wrong, {{"127.0.0.1", port()}});

  EXPECT_TRUE(serve_until([&] { return !rejected.empty(); }));

  EXPECT_FALSE(is_connected(stranger));
  EXPECT_GE(server.rejected(), 1);
}

TEST_F(Control, TurnsAwayZeromqWithoutKeys) {
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.connect(fmt::format("tcp://127.0.0.1:{}", port()));
  stranger.send(zmq::buffer(std::string("hello")), zmq::send_flags::dontwait);

  EXPECT_TRUE(serve_until([&] { return !rejected.empty(); }));

  zmq::message_t answer;
  EXPECT_FALSE(stranger.recv(answer, zmq::recv_flags::dontwait));
  EXPECT_THAT(messages, ::testing::IsEmpty());
}

TEST_F(Control, TurnsAwayWhoSpeaksSomethingElse) {
  std::thread strangers([this] {
    speak(port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", milliseconds(2000));
    speak(port(), std::string(4096, 'x'), milliseconds(2000));
    speak(port(), std::string(64, '\0'), milliseconds(2000));
  });

  EXPECT_TRUE(serve_until([&] { return rejected.size() == 3; }));
  strangers.join();

  connect("a friend");
  EXPECT_EQ(server.rejected(), 3);
}

// The stranger would stay for a minute, longer than serve_until() waits.
TEST_F(Control, TurnsAwayWhoSaysNothing) {
  std::thread stranger([this] { speak(port(), "", milliseconds(60'000)); });
  connect("a friend, meanwhile");

  EXPECT_TRUE(serve_until([&] { return !rejected.empty(); }));
  stranger.join();

  EXPECT_THAT(rejected.front(), StartsWith("127.0.0.1:"));
}

TEST_F(Control, StandsRandomBytes) {
  constexpr int kStrangers = 2000;
  std::thread strangers([this] {
    std::mt19937 random(4711);  // reproducible
    for (int turn = 0; turn < kStrangers; ++turn) {
      std::string bytes(1 + random() % 200, '\0');
      for (char& byte : bytes) {
        byte = static_cast<char>(random());
      }
      // Half of them start with the greeting of ZeroMQ.
      if (turn % 2 == 0) {
        bytes.insert(0, std::string("\xff\0\0\0\0\0\0\0\1\x7f\3", 11));
      }
      speak(port(), bytes);
    }
  });
  const auto client = connect("a friend, meanwhile");

  EXPECT_TRUE(serve_until([&] { return rejected.size() == kStrangers; }));
  strangers.join();

  EXPECT_EQ(server.rejected(), kStrangers);
  EXPECT_THAT(closed, ::testing::IsEmpty());
  client->send("still here");
  EXPECT_TRUE(serve_until([&] { return messages.back() == "still here"; }));
}

// Not only when its heartbeat times out, after 2.5 s.
TEST_F(Control, ReportsAtOnceThatAPeerVanished) {
  std::vector<std::unique_ptr<ControlClient>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(connect(fmt::format("here {}", i)));
  }

  const auto shortest = testing::shortest_of(5, [&] {
    clients.pop_back();
    const size_t gone = 5 - clients.size();
    EXPECT_TRUE(serve_until([&] { return closed.size() == gone; }));
    EXPECT_EQ(closed.back(), peers.at(clients.size()));
  });

  EXPECT_LT(shortest, std::chrono::seconds(1));
}

TEST_F(Control, DeliversWhatWasSaidBeforeThePeerLeft) {
  auto client = connect("first");
  for (int i = 0; i < 1000; ++i) {
    client->send(fmt::format("{}", i));
  }
  client.reset();
  bool was_closed_early = false;

  EXPECT_TRUE(serve_until([&] {
    was_closed_early = was_closed_early || (!closed.empty() && messages.size() < 1001);
    return !closed.empty();
  }));

  EXPECT_EQ(messages.size(), 1001U);
  EXPECT_FALSE(was_closed_early);
}

// A descriptor is reused at once: the end of one connection must not be taken for the end of the
// next.
TEST_F(Control, DistinguishesPeersThatComeAndGo) {
  const auto stays = connect("stays");
  for (int i = 0; i < 20; ++i) {
    auto client = connect(fmt::format("guest {}", i));
    client.reset();
    const auto next = connect(fmt::format("next {}", i));
    EXPECT_TRUE(serve_until([&] { return closed.size() >= static_cast<size_t>(2 * i + 1); }));
    EXPECT_EQ(closed.back(), *(peers.end() - 2));
    const_cast<std::unique_ptr<ControlClient>&>(next).reset();
    EXPECT_TRUE(serve_until([&] { return closed.size() >= static_cast<size_t>(2 * i + 2); }));
    EXPECT_EQ(closed.back(), peers.back());
  }
  EXPECT_THAT(rejected, ::testing::IsEmpty());
}

TEST_F(Control, MissesAFrozenPeerWithinSeconds) {
  const int child = os::fork_process();
  if (child == 0) {
    ControlClient client(keys, {{"127.0.0.1", port()}});
    for (;;) {
      if (is_connected(client)) {
        client.send("here");
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  os::Child frozen(child);
  EXPECT_TRUE(serve_until([&] { return !messages.empty(); }));

  frozen.signal(SIGSTOP);

  EXPECT_TRUE(serve_until([&] { return !closed.empty(); }));
  frozen.signal(SIGKILL);
  frozen.wait();
}

TEST_F(Control, ReportsToTheClientThatTheServerIsGone) {
  auto own = std::make_unique<ControlServer>(keys, 0);
  ControlClient client(keys, {{"127.0.0.1", own->port()}});
  ASSERT_TRUE(lockstep::testing::comes_true([&] {
    own->poll();
    return is_connected(client);
  }));
  std::string peer;
  client.send("who am I");
  ASSERT_TRUE(lockstep::testing::comes_true([&] {
    if (const auto news = own->poll()) {
      peer = news->peer;
    }
    return !peer.empty();
  }));
  own->send(peer, "the last order");

  own.reset();

  std::vector<ControlClient::News> heard;
  ASSERT_TRUE(lockstep::testing::comes_true([&] {
    if (const auto news = client.poll()) {
      heard.push_back(*news);
    }
    return heard.size() == 2;
  }));
  EXPECT_EQ(heard[0].text, "the last order");
  EXPECT_EQ(heard[1].kind, ControlClient::News::Kind::Closed);
}

TEST_F(Control, ServesTwoHundredPeers) {
  constexpr size_t kPeers = 200;
  std::vector<std::unique_ptr<ControlClient>> clients;
  for (size_t i = 0; i < kPeers; ++i) {
    clients.push_back(
        std::make_unique<ControlClient>(keys, std::vector<Endpoint>{{"127.0.0.1", port()}}));
  }
  EXPECT_TRUE(serve_until([&] {
    for (auto& client : clients) {
      if (is_connected(*client)) {
        client->send("here");
      }
    }
    return messages.size() >= kPeers;
  }));

  clients.clear();

  EXPECT_TRUE(serve_until([&] { return closed.size() >= kPeers; }));
}

TEST(ControlServer, SaysWhenItsPortIsTaken) {
  const ControlKeys keys = make_keys();
  const ControlServer first(keys, 0);
  try {
    const ControlServer second(keys, first.port());
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("cannot listen on port {}", first.port())));
  }
}

}  // namespace
}  // namespace lockstep::supervisor
