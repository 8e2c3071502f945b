// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/reachability.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>

#include "common/os/pipe.h"
#include "common/os/socket.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;

constexpr ProberOptions kPatient{.timeout = milliseconds(20'000)};
constexpr ProberOptions kHasty{.timeout = milliseconds(200)};

ProbeSecret secret_of(uint8_t byte) {
  ProbeSecret secret{};
  secret.fill(byte);
  return secret;
}

Target loopback(int port) {
  return {.to = 1, .network = 0, .address = "127.0.0.1", .port = port, .source = ""};
}

milliseconds until(std::optional<ProbeClock::time_point> deadline) {
  return deadline ? std::max(std::chrono::ceil<milliseconds>(*deadline - ProbeClock::now()),
                             milliseconds(0))
                  : milliseconds(1000);
}

// The event loop of an agent that answers and sends probes.
std::vector<plan::Trial> drive(Prober& prober, ProbeListener* listener = nullptr) {
  while (!prober.is_done()) {
    std::vector<os::Watch> watches = {{.fd = prober.fd()}};
    if (listener != nullptr) {
      watches.push_back({.fd = listener->fd()});
    }
    os::wait_for(watches, until(prober.next_deadline()));
    prober.take();
    if (listener != nullptr) {
      listener->take();
    }
  }
  return prober.trials();
}

std::string fault_of(const Target& target,
                     const ProberOptions& options,
                     ProbeListener* listener = nullptr) {
  Prober prober(secret_of(1), 0, {target}, options);
  return drive(prober, listener).at(0).fault;
}

// A listener of another program on the loopback address.
struct OtherProgram {
  explicit OtherProgram(int backlog = 16) : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    // NOLINTBEGIN: the socket interface is written in C
    EXPECT_EQ(::bind(socket.number(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket.number(), backlog), 0);
    ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size);
    // NOLINTEND
    port = ntohs(address.sin_port);
  }
  os::Fd accept() const { return os::Fd(::accept(socket.number(), nullptr, nullptr)); }
  Target target() const { return loopback(port); }

  os::Fd socket;
  int port = 0;
};

// An established connection.
os::Fd connect_to(int port) {
  os::Connecting started = os::start_connect({.from = "", .to = "127.0.0.1", .port = port});
  std::array<os::Watch, 1> watch = {os::Watch{.fd = started.socket.number(), .for_write = true}};
  os::wait_for(watch, milliseconds(5000));
  EXPECT_EQ(os::connect_fault(started.socket), 0);
  return std::move(started.socket);
}

void say(const os::Fd& socket, const std::vector<uint8_t>& bytes) {
  os::send_at_once(socket, bytes);
}

// Runs a listener until it has nothing to do.
void let_work(ProbeListener& listener) {
  std::array<os::Watch, 1> watch = {os::Watch{.fd = listener.fd()}};
  for (;;) {
    watch[0].is_ready = false;
    os::wait_for(watch, milliseconds(20));
    if (!watch[0].is_ready) {
      return;
    }
    listener.take();
  }
}

TEST(Prober, ReachesAListenerOfItsRunOverIpv4AndIpv6) {
  ProbeListener listener(secret_of(1));
  std::vector<Target> targets = {{.to = 3,
                                  .network = 5,
                                  .address = "127.0.0.1",
                                  .port = listener.port(),
                                  .source = "127.0.0.2"}};
  if (os::start_connect({.from = "::1", .to = "::1", .port = listener.port()}).fault == 0) {
    targets.push_back(
        {.to = 4, .network = 6, .address = "::1", .port = listener.port(), .source = "::1"});
  }
  Prober prober(secret_of(1), 2, targets, kPatient);

  const auto trials = drive(prober, &listener);

  EXPECT_THAT(trials, Each(Field(&plan::Trial::fault, "")));
  EXPECT_EQ(trials.at(0).from, 2);
  EXPECT_EQ(trials.at(0).to, 3);
  EXPECT_EQ(trials.at(0).network, 5);
  EXPECT_EQ(listener.pending(), 0U);
}

TEST(Prober, TriesManyTargetsAFewAtATime) {
  ProbeListener listener(secret_of(1));
  const std::vector<Target> targets(1000, loopback(listener.port()));
  Prober prober(secret_of(1), 0, targets, {.timeout = kPatient.timeout, .max_at_once = 16});

  EXPECT_THAT(drive(prober, &listener), Each(Field(&plan::Trial::fault, "")));
}

TEST(Prober, SaysWhyATargetCannotBeReached) {
  const os::ReservedPort unused = std::move(os::reserve_ports(1).front());
  EXPECT_EQ(fault_of(loopback(unused.number()), kPatient), "refused");
  EXPECT_EQ(fault_of({.address = "192.0.2.1", .port = 9, .source = "127.0.0.1"}, kPatient),
            "no route");
  EXPECT_EQ(fault_of({.address = "127.0.0.1", .port = 9, .source = "192.0.2.77"}, kPatient),
            "Cannot assign requested address");
}

TEST(Prober, GivesUpOnAListenerThatSaysNothing) {
  const OtherProgram silent;
  Prober prober(secret_of(1), 0, {silent.target()}, kHasty);
  const os::Fd connection = silent.accept();

  const plan::Trial trial = drive(prober).at(0);

  EXPECT_EQ(trial.fault, "no answer");
  EXPECT_GE(trial.milliseconds, 199);
}

TEST(Prober, GivesUpWhereConnectionsAreNotEvenMade) {
  const OtherProgram full(0);
  const os::Fd only = connect_to(full.port);  // the queue holds one, then packets are dropped

  const plan::Trial trial = [&] {
    Prober prober(secret_of(1), 0, {full.target()}, kHasty);
    return drive(prober).at(0);
  }();

  EXPECT_EQ(trial.fault, "no answer");
  EXPECT_GE(trial.milliseconds, 199);
}

TEST(Prober, TriesAgainAtHalfTimeWhenTheFirstPacketIsLost) {
  const OtherProgram full(0);
  os::Fd first = connect_to(full.port);
  Prober prober(secret_of(1), 0, {full.target()}, {.timeout = milliseconds(1000)});
  full.accept();  // makes room, but the first packet is gone and the kernel waits a second

  const os::Fd tried = [&] {
    while (!prober.is_done()) {
      std::array<os::Watch, 2> watches = {os::Watch{.fd = prober.fd()},
                                          os::Watch{.fd = full.socket.number()}};
      os::wait_for(watches, until(prober.next_deadline()));
      prober.take();
      if (watches[1].is_ready) {
        return full.accept();
      }
    }
    return os::Fd();
  }();

  EXPECT_TRUE(tried.is_open());
}

TEST(Prober, KnowsAnotherProgram) {
  const OtherProgram other;
  const auto fault_after = [&](const auto& answer) {
    Prober prober(secret_of(1), 0, {other.target()}, kPatient);
    answer(other.accept());
    return drive(prober).at(0).fault;
  };

  EXPECT_EQ(fault_after([](os::Fd) {}), "another program answers");
  os::Fd kept;
  EXPECT_EQ(fault_after([&](os::Fd connection) {
              say(connection, std::vector<uint8_t>(100, 'x'));
              kept = std::move(connection);
            }),
            "another program answers");
}

TEST(Prober, KnowsAListenerOfAnotherRun) {
  ProbeListener listener(secret_of(2));

  EXPECT_EQ(fault_of(loopback(listener.port()), kPatient, &listener), "another program answers");
  EXPECT_EQ(listener.pending(), 0U);
}

TEST(Prober, HasNothingToDoWithoutTargets) {
  const Prober prober(secret_of(1), 0, {});

  EXPECT_TRUE(prober.is_done());
  EXPECT_THAT(prober.trials(), IsEmpty());
  EXPECT_EQ(prober.next_deadline(), std::nullopt);
}

TEST(ProbeListener, AnswersWhateverGarbageCameBefore) {
  ProbeListener listener(secret_of(1));
  std::mt19937 random(7);  // NOLINT: reproducible
  size_t maximum = 0;
  std::vector<os::Fd> open;
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> bytes(random() % 100);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random());
    }
    open.push_back(connect_to(listener.port()));
    say(open.back(), bytes);
    if (open.size() > 100) {
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(random() % open.size()));
    }
    listener.take();
    maximum = std::max(maximum, listener.pending());
  }

  EXPECT_LE(maximum, ProbeListener::kMaxPending);
  EXPECT_EQ(fault_of(loopback(listener.port()), kPatient, &listener), "");
}

TEST(ProbeListener, KeepsFewOfManyThatSayTooLittleAndStillAnswers) {
  ProbeListener listener(secret_of(1));
  std::vector<os::Fd> slow;
  for (int i = 0; i < 300; ++i) {
    slow.push_back(connect_to(listener.port()));
    say(slow.back(), {1, 2, 3});
  }
  let_work(listener);
  EXPECT_EQ(listener.pending(), ProbeListener::kMaxPending);

  EXPECT_EQ(fault_of(loopback(listener.port()), kPatient, &listener), "");
}

TEST(ProbeListener, DropsAClientThatIsSlowForTwoSeconds) {
  ProbeListener listener(secret_of(1));
  const os::Fd slow = connect_to(listener.port());
  say(slow, {1, 2, 3});
  let_work(listener);
  ASSERT_EQ(listener.pending(), 1U);
  const auto deadline = listener.next_deadline();
  ASSERT_TRUE(deadline.has_value());

  listener.take(*deadline - milliseconds(1));
  EXPECT_EQ(listener.pending(), 1U);
  listener.take(*deadline);
  EXPECT_EQ(listener.pending(), 0U);
  EXPECT_EQ(listener.next_deadline(), std::nullopt);
}

TEST(ProbeListener, TakesAProbeInPieces) {
  ProbeListener listener(secret_of(1));
  const OtherProgram relay;
  Prober prober(secret_of(1), 0, {relay.target()}, kPatient);
  const os::Fd from = relay.accept();
  const os::Fd to = connect_to(listener.port());
  std::array<os::Watch, 1> watch = {os::Watch{.fd = prober.fd()}};
  os::wait_for(watch, milliseconds(5000));
  prober.take();

  for (size_t i = 0; i < kProbeBytes; ++i) {
    std::array<uint8_t, 1> byte{};
    ASSERT_EQ(::recv(from.number(), byte.data(), 1, 0), 1);
    say(to, {byte[0]});
    let_work(listener);
  }
  std::array<uint8_t, kProbeTagBytes> answer{};
  ASSERT_EQ(os::receive_some(to, answer), answer.size());
  say(from, {answer.begin(), answer.end()});

  EXPECT_EQ(drive(prober).at(0).fault, "");
}

}  // namespace
}  // namespace lockstep::supervisor
