// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/rendezvous.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RendezvousPoint fake_point() {
  RendezvousPoint point;
  point.endpoints = {{"10.0.0.1", 4711}, {"fd00::1", 4711}};
  point.keys = make_keys();
  point.keys.server_secret.clear();
  point.node = 3;
  point.directory = "/home/caf\xe9";
  point.environment = {{"LATIN", "\xff\xe9 \n"}, {"EMPTY", ""}};
  return point;
}

TEST(RendezvousPoint, ComesBackAsItWas) {
  RendezvousPoint point = fake_point();
  EXPECT_EQ(decode_rendezvous_point(encode(point)), point);

  point.node.reset();
  EXPECT_EQ(decode_rendezvous_point(encode(point)), point);
}

TEST(RendezvousPoint, IsOneLineWithoutTheLeadersSecret) {
  RendezvousPoint point = fake_point();
  point.keys = make_keys();

  const std::string text = encode(point);

  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(text, Not(HasSubstr(point.keys.server_secret)));
}

TEST(RendezvousPoint, IsAnErrorWhenItIsNone) {
  std::string other_format = encode(fake_point());
  other_format.replace(other_format.find("\"format\":1"), 10, "\"format\":9");
  std::string short_key = encode(fake_point());
  short_key.erase(short_key.find("\"client_secret\":\"") + 17, 1);

  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), other_format, short_key}) {
    try {
      decode_rendezvous_point(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Io);
      EXPECT_THAT(error.what(), HasSubstr("cannot read the rendezvous"));
    }
  }
}

TEST(RendezvousFileTest, LiesWhereTheUserSaysElseInTheStateDirectory) {
  plan::Rendezvous rendezvous;
  rendezvous.name = "n1:29400/../x";
  const os::Environment all = {
      {"LOCKSTEP_MEETING_DIR", "/m"}, {"XDG_STATE_HOME", "/s"}, {"HOME", "/h"}};

  EXPECT_EQ(rendezvous_path(rendezvous, all), "/m/n1-29400-..-x.json");
  EXPECT_EQ(rendezvous_path(rendezvous, {{"XDG_STATE_HOME", "/s"}, {"HOME", "/h"}}),
            "/s/lockstep/n1-29400-..-x.json");
  EXPECT_EQ(rendezvous_path(rendezvous, {{"HOME", "/h"}}),
            "/h/.local/state/lockstep/n1-29400-..-x.json");
}

TEST(RendezvousFileTest, NeedsAHome) {
  try {
    rendezvous_path({}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_THAT(error.what(), HasSubstr("no directory for the rendezvous file: HOME is not set"));
  }
}

class Posted : public ::testing::Test {
 protected:
  os::TemporaryDirectory directory{"rendezvous-test"};
  fs::path file = directory.path() / "below" / "job.json";
};

TEST_F(Posted, IsForThisUserOnlyAndGoneAtTheEnd) {
  {
    const RendezvousFile posted(file, fake_point());
    EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_TRUE(find_rendezvous_in(file));
  }

  EXPECT_FALSE(fs::exists(file));
  EXPECT_TRUE(fs::is_empty(file.parent_path()));
}

TEST_F(Posted, LeavesWhatALaterRunHasPosted) {
  auto first = std::make_unique<RendezvousFile>(file, fake_point());
  const RendezvousPoint later = fake_point();
  const RendezvousFile second(file, later);

  first.reset();

  EXPECT_EQ(find_rendezvous_in(file), later);
}

TEST_F(Posted, IsNotReadWhenOthersCouldHaveWrittenIt) {
  const RendezvousFile posted(file, fake_point());
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(find_rendezvous_in(file));

  const fs::path link = directory.path() / "link.json";
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(file, link);
  EXPECT_FALSE(find_rendezvous_in(link));
}

TEST_F(Posted, IsRejectedIfTheFileBelongsToAnotherUser) {
  EXPECT_FALSE(find_rendezvous_in(file));
  fs::create_directories(file.parent_path());
  os::write_private(file, "{ \"format\": 0 }");

  EXPECT_FALSE(find_rendezvous_in(file));
}

TEST(OwnEndpoints, EndWithLoopback) {
  const auto endpoints = own_endpoints(4711);

  ASSERT_THAT(endpoints, Not(IsEmpty()));
  EXPECT_TRUE(endpoints.back().address == "127.0.0.1" || endpoints.back().address == "::1");
  EXPECT_EQ(endpoints.front().port, 4711);
}

TEST(DerivedKeys, AreTheSameForTheSameSecretAndRendezvousOnly) {
  const std::string secret(64, 's');
  const ControlKeys keys = derive_keys(secret, "job1");

  EXPECT_EQ(derive_keys(secret, "job1"), keys);
  EXPECT_NE(derive_keys(secret, "job2"), keys);
  EXPECT_NE(derive_keys(secret + "x", "job1"), keys) << "all of a long secret counts";
  EXPECT_NE(keys.server_secret, keys.client_secret);
  EXPECT_NE(probe_secret(keys), probe_secret(derive_keys(secret, "job2")));
}

TEST(MadeKeys, AreNewEveryTime) {
  const ControlKeys keys = make_keys();

  EXPECT_NE(keys, make_keys());
  EXPECT_EQ(keys.server_public.size(), 40U);
}

}  // namespace
}  // namespace lockstep::supervisor
