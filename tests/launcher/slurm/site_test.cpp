// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/site.h"

#include <gmock/gmock.h>

#include "common/os/files.h"
#include "launcher/slurm/job_fixture.h"

namespace lockstep::slurm {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::settings_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

class Sites : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    os::make_directories((directory.path() / name).parent_path());
    os::write_file(directory.path() / name, text);
  }

  os::TemporaryDirectory directory;
};

TEST_F(Sites, LieWhereTheUserOrTheAdministratorPutThem) {
  const os::Environment environment = {{"LOCKSTEP_SITES", "/a:/b"}, {"HOME", "/home/me"}};

  EXPECT_THAT(site_directories(environment, "/opt/share"),
              ElementsAre("/a", "/b", "/home/me/.config/lockstep/sites", "/opt/share/sites"));
  EXPECT_THAT(site_directories({{"XDG_CONFIG_HOME", "/c"}, {"HOME", "/h"}}, "/s"),
              ElementsAre("/c/lockstep/sites", "/s/sites"));
}

TEST_F(Sites, OfTheUserHideThoseOfTheSameName) {
  write("mine/one.yaml", "description: mine\nhosts: [login*]\n");
  write("shipped/one.yaml", "description: shipped\n");
  write("shipped/two.yaml", "description: two\nhosts: ['gpu?']\n");
  const auto sites = find_sites(
      {directory.path() / "mine", directory.path() / "shipped", directory.path() / "not-there"});

  ASSERT_THAT(sites, SizeIs(2));
  EXPECT_EQ(site_named("one", sites).description, "mine");
  EXPECT_EQ(find_site_of("login01", sites)->name, "one");
  EXPECT_EQ(find_site_of("gpu7", sites)->name, "two");
  EXPECT_FALSE(find_site_of("gpu17", sites));
  EXPECT_THAT([&] { site_named("on", sites); }, ThrowsMessage<Error>(HasSubstr("site: one")));
  EXPECT_THAT([&] { site_named("juwels", {}); },
              ThrowsMessage<Error>(HasSubstr("~/.config/lockstep/sites/juwels.yaml")));
}

TEST_F(Sites, AreCheckedAsStrictlyAsJobs) {
  write("a.yaml", "settings: {partitoin: x}\n");
  EXPECT_THAT([&] { read_site(directory.path() / "a.yaml"); },
              ThrowsMessage<Error>(HasSubstr("try:      partition")));
  write("b.yaml", "setings: {}\n");
  EXPECT_THAT([&] { read_site(directory.path() / "b.yaml"); },
              ThrowsMessage<Error>(HasSubstr("try:      settings")));
  write("c.yaml", "required: [acount]\n");
  EXPECT_THAT([&] { read_site(directory.path() / "c.yaml"); },
              ThrowsMessage<Error>(HasSubstr("acount")));
}

TEST_F(Sites, RequireTheirKeys) {
  write("a.yaml", "required: [account]\n");
  const Site site = read_site(directory.path() / "a.yaml");

  EXPECT_NO_THROW(require_keys(site, settings_of("account: x")));
  EXPECT_THAT(
      [&] { require_keys(site, settings_of("")); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("account is required"), HasSubstr("a.yaml"), HasSubstr("--account NAME"))));
}

TEST_F(Sites, ThatComeWithLockstepCanBeRead) {
  const auto sites = find_sites({fs::path(LOCKSTEP_SOURCE_DIR) / "sites"});

  ASSERT_THAT(sites, SizeIs(2));
  for (const Site& site : sites) {
    JobSettings settings;
    settings.lay(site.settings);
    EXPECT_FALSE(make_job(settings, lockstep::testing::plain_inputs()).directives.empty())
        << site.name;
    EXPECT_FALSE(site.description.empty());
  }
}

}  // namespace
}  // namespace lockstep::slurm
