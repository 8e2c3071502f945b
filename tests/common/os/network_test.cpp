// SPDX-License-Identifier: Apache-2.0
#include "common/os/network.h"

#include <gmock/gmock.h>

namespace lockstep::os {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Eq;
using ::testing::Field;
using ::testing::Not;
using ::testing::Optional;
using ::testing::StartsWith;

TEST(InterfaceAddresses, HaveTheLoopbackOneWithItsPrefix) {
  const InterfaceAddress loopback{
      .interface = "lo", .text = "127.0.0.1", .prefix = 8, .is_v6 = false, .is_loopback = true};

  EXPECT_THAT(interface_addresses(), Contains(loopback));
}

TEST(InterfaceAddresses, HaveNoneOfOneLinkOnly) {
  EXPECT_THAT(interface_addresses(),
              Each(AllOf(Field(&InterfaceAddress::text, Not(StartsWith("fe80"))),
                         Field(&InterfaceAddress::text, Not(StartsWith("169.254."))))));
}

TEST(FindNetwork, KeepsTheFirstBits) {
  EXPECT_THAT(find_network("10.12.3.77", 24), Optional(Eq("10.12.3.0/24")));
  EXPECT_THAT(find_network("10.12.3.77", 20), Optional(Eq("10.12.0.0/20")));
  EXPECT_THAT(find_network("10.12.3.77", 32), Optional(Eq("10.12.3.77/32")));
  EXPECT_THAT(find_network("10.12.3.77", 0), Optional(Eq("0.0.0.0/0")));
  EXPECT_THAT(find_network("fd00:1::abcd", 64), Optional(Eq("fd00:1::/64")));
  EXPECT_THAT(find_network("fd00:1::ffff", 124), Optional(Eq("fd00:1::fff0/124")));
}

TEST(FindNetwork, FindsNoneForWhatIsNoAddress) {
  EXPECT_EQ(find_network("n1", 24), std::nullopt);
  EXPECT_EQ(find_network("", 0), std::nullopt);
  EXPECT_EQ(find_network("10.0.0.1", 33), std::nullopt);
  EXPECT_EQ(find_network("10.0.0.1", -1), std::nullopt);
  EXPECT_EQ(find_network("::1", 129), std::nullopt);
}

}  // namespace
}  // namespace lockstep::os
