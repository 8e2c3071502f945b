// SPDX-License-Identifier: Apache-2.0
#include "common/os/probe_socket.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <gmock/gmock.h>

#include "common/os/pipe.h"

namespace lockstep::os {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::array<uint8_t, 3> kBytes = {1, 2, 3};

bool becomes_ready(int fd, bool for_write) {
  std::array<Watch, 1> watch = {Watch{.fd = fd, .for_write = for_write}};
  wait_for(watch, std::chrono::seconds(5));
  return watch[0].is_ready;
}

class ProbeSocket : public ::testing::TestWithParam<const char*> {};

TEST_P(ProbeSocket, CarriesBytesFromAConnectionToItsListener) {
  const Listener listener = listen_everywhere();
  const Connecting mine =
      start_connect({.from = GetParam(), .to = GetParam(), .port = listener.port});
  if (mine.fault == EAFNOSUPPORT || mine.fault == EADDRNOTAVAIL) {
    GTEST_SKIP() << "this machine has no " << GetParam();
  }
  ASSERT_EQ(mine.fault, 0);
  ASSERT_TRUE(becomes_ready(mine.socket.number(), true));
  ASSERT_EQ(connect_fault(mine.socket), 0);
  ASSERT_TRUE(send_at_once(mine.socket, kBytes));

  ASSERT_TRUE(becomes_ready(listener.socket.number(), false));
  std::optional<Fd> theirs = find_connection(listener.socket);
  ASSERT_TRUE(theirs.has_value());
  ASSERT_TRUE(becomes_ready(theirs->number(), false));
  std::array<uint8_t, 8> room{};

  EXPECT_EQ(receive_some(*theirs, room), kBytes.size());
  EXPECT_EQ(room[2], 3);
  EXPECT_EQ(receive_some(*theirs, room), size_t{0});
  EXPECT_EQ(find_connection(listener.socket), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Families, ProbeSocket, ::testing::Values("127.0.0.1", "::1"));

TEST(StartConnect, ReportsAnErrorAtOnce) {
  EXPECT_EQ(start_connect({.from = "", .to = "n1", .port = 1}).fault, EAFNOSUPPORT);
  EXPECT_EQ(start_connect({.from = "192.0.2.77", .to = "127.0.0.1", .port = 1}).fault,
            EADDRNOTAVAIL);
}

TEST(ReceiveSome, ReportsAnEnd) {
  const Listener listener = listen_everywhere();
  Connecting mine = start_connect({.from = "", .to = "127.0.0.1", .port = listener.port});
  ASSERT_TRUE(becomes_ready(mine.socket.number(), true));
  ASSERT_TRUE(send_at_once(mine.socket, kBytes));
  ASSERT_TRUE(becomes_ready(listener.socket.number(), false));
  find_connection(listener.socket);  // closes it immediately
  ASSERT_TRUE(becomes_ready(mine.socket.number(), false));

  std::array<uint8_t, 8> room{};
  EXPECT_EQ(receive_some(mine.socket, room), std::nullopt);
}

TEST(ReadySet, NamesWhatIsReadyAndForgetsWhatIsClosed) {
  ReadySet set;
  Pipe one = make_pipe();
  Pipe two = make_pipe();
  set.add(one.out, ReadySet::For::Read, 1);
  set.add(two.out, ReadySet::For::Read, 2);
  EXPECT_THAT(set.ready(), IsEmpty());

  write_all(two.in.number(), "x");
  EXPECT_TRUE(becomes_ready(set.fd(), false));
  EXPECT_THAT(set.ready(), ElementsAre(2));

  two.out.close();
  EXPECT_THAT(set.ready(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::os
