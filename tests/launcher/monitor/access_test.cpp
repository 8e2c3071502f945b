// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/access.h"

#include <gmock/gmock.h>

namespace lockstep::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(Token, IsLongAndAnotherEachTime) {
  EXPECT_THAT(make_token(), MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(make_token(), make_token());
}

TEST(Secret, IsTheSameOnlyInFull) {
  EXPECT_TRUE(is_same_secret("abc", "abc"));
  EXPECT_FALSE(is_same_secret("abc", "abd"));
  EXPECT_FALSE(is_same_secret("abc", "ab"));
  EXPECT_FALSE(is_same_secret("", "abc"));
}

TEST(Cookie, IsFoundAmongOthers) {
  EXPECT_EQ(cookie_of("a=1; lockstep=secret; b=2", "lockstep"), "secret");
  EXPECT_EQ(cookie_of("lockstep=a=b", "lockstep"), "a=b");
  EXPECT_EQ(cookie_of("not-lockstep=secret; lockstep", "lockstep"), "");
  EXPECT_EQ(cookie_of("", "lockstep"), "");
}

TEST(Access, IsByQueryByCookieOrByHeader) {
  const Access access("0123");
  const std::string cookie = access.cookie().substr(0, access.cookie().find(';'));

  EXPECT_TRUE(access.admits("0123", "", ""));
  EXPECT_TRUE(access.admits("", "x=y; " + cookie, ""));
  EXPECT_TRUE(access.admits("", "", "Bearer 0123"));
  EXPECT_FALSE(access.admits("", "", ""));
  EXPECT_FALSE(access.admits("0124", "lockstep=0123", "0123"));
}

TEST(Access, KeepsItsCookieFromScriptsAndOtherSites) {
  EXPECT_THAT(Access("0123").cookie(), HasSubstr("; HttpOnly; SameSite=Strict"));
  EXPECT_THAT(Access("0123").cookie(), Not(HasSubstr("Domain")));
}

}  // namespace
}  // namespace lockstep::monitor
