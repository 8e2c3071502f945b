// SPDX-License-Identifier: Apache-2.0
#include "common/os/socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstddef>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "common/os/fd.h"
#include "common/os/pipe.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::chrono::milliseconds kShort(50);

Fd listen_on(int port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  address.sin_port = ::htons(static_cast<uint16_t>(port));
  // NOLINTNEXTLINE: the socket interface is written in C
  EXPECT_EQ(::bind(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(socket.number(), 1), 0);
  return socket;
}

TEST(FreePort, IsFreeUntilAProcessListens) {
  const int port = free_port();
  EXPECT_TRUE(is_port_free("127.0.0.1", port));
  EXPECT_FALSE(wait_for_port("127.0.0.1", port, kShort));

  const Fd listener = listen_on(port);

  EXPECT_FALSE(is_port_free("127.0.0.1", port));
  EXPECT_FALSE(is_port_free("localhost", port));
  EXPECT_TRUE(wait_for_port("127.0.0.1", port, kShort));
}

TEST(IsPortFree, RefusesAddressesThatAreNotOfThisMachine) {
  EXPECT_THAT([] { is_port_free("192.0.2.1", 23456); },
              ThrowsMessage<Error>(HasSubstr("cannot listen on port 23456 at '192.0.2.1'")));
  EXPECT_THAT([] { is_port_free("not a host", 23456); },
              ThrowsMessage<Error>(HasSubstr("cannot find the address of 'not a host'")));
}

TEST(ReservePort, GivesAFreePortThatTheKernelDoesNotServeFrom) {
  const ReservedPort port = std::move(reserve_ports(1).front());

  EXPECT_TRUE(is_port_free("127.0.0.1", port.number()));
  EXPECT_GE(port.number(), 10000);
  EXPECT_LE(port.number(), 65535);
}

// Simulates another run: holds ports until no process has `until_end` open for writing.
pid_t start_holder(int count, const Pipe& numbers, Pipe& until_end) {
  const pid_t child = ::fork();
  if (child != 0) {
    return child;
  }
  until_end.in.close();
  std::vector<ReservedPort> ports;
  for (int i = 0; i < count; ++i) {
    ports.push_back(std::move(reserve_ports(1).front()));
    const int number = ports.back().number();
    if (::write(numbers.in.number(), &number, sizeof(number)) != sizeof(number)) {
      ::_exit(1);
    }
  }
  char end = 0;
  ::_exit(::read(until_end.out.number(), &end, 1) == 0 ? 0 : 1);
}

// Without claims, about 39 of them would be equal.
TEST(ReservePort, GivesNoPortTwiceToTwentyRunsAtOnce) {
  constexpr int kRuns = 20;
  constexpr int kPortsEach = 50;
  Pipe numbers = make_pipe();
  Pipe until_end = make_pipe();
  std::vector<pid_t> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.push_back(start_holder(kPortsEach, numbers, until_end));
  }
  numbers.in.close();

  std::set<int> different;
  int number = 0;
  for (int i = 0; i < kRuns * kPortsEach; ++i) {
    ASSERT_EQ(::read(numbers.out.number(), &number, sizeof(number)), ssize_t{sizeof(number)});
    different.insert(number);
  }
  until_end.in.close();

  EXPECT_EQ(different.size(), size_t{kRuns * kPortsEach});
  for (const pid_t run : runs) {
    int status = -1;
    EXPECT_EQ(::waitpid(run, &status, 0), run);
    EXPECT_EQ(status, 0);
  }
}

// Another user could bind all names. Without the second name per port, no port would be left.
TEST(ReservePort, IsNotKeptFromAPortByNamesAlone) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit before = files;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16'000);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  std::vector<Fd> names;
  for (int port = 20000; port < 32768; ++port) {  // the first choice of quiet_ports()
    Fd name(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!name.is_open()) {
      GTEST_SKIP() << "needs 13,000 descriptors";
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string text = "lockstep/port/" + std::to_string(port);
    std::copy(text.begin(), text.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    // Fails if a run in another test has this name already.
    [[maybe_unused]] const int done =
        ::bind(name.number(), reinterpret_cast<const sockaddr*>(&address), size);
    names.push_back(std::move(name));
  }

  const std::vector<ReservedPort> first = reserve_ports(2);
  const std::vector<ReservedPort> second = reserve_ports(2);
  EXPECT_NE(first[0].number(), first[1].number());
  EXPECT_NE(first[0].number(), second[0].number());
  names.clear();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace lockstep::os
