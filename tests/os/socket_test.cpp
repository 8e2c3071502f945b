// SPDX-License-Identifier: Apache-2.0
#include "os/socket.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lockstep/error.h"
#include "os/fd.h"

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

TEST(FreePort, IsFreeUntilSomebodyListens) {
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

}  // namespace
}  // namespace lockstep::os
