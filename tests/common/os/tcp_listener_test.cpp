// SPDX-License-Identifier: Apache-2.0
#include "common/os/tcp_listener.h"

#include <gmock/gmock.h>

#include "common/os/socket.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TcpListeners, TakeTheGivenPortOrAnyOther) {
  TcpListener any("127.0.0.1", 0);
  EXPECT_GT(any.port(), 0);
  EXPECT_FALSE(is_port_free("127.0.0.1", any.port()));
  EXPECT_FALSE(any.find_connection());

  const int port = free_port();
  EXPECT_EQ(TcpListener("127.0.0.1", port).port(), port);
}

TEST(TcpListeners, SayWhyTheyCannotListen) {
  const TcpListener first("127.0.0.1", 0);
  EXPECT_THAT([&] { TcpListener("127.0.0.1", first.port()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("cannot listen on port "), HasSubstr("Address already in use"))));
  EXPECT_THAT([] { TcpListener("node-a", 0); },
              ThrowsMessage<Error>(HasSubstr("cannot listen at 'node-a'")));
}

}  // namespace
}  // namespace lockstep::os
