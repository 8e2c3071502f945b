// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/placement.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RequireProgram : public ::testing::Test {
 protected:
  RequireProgram() { std::ofstream(path("train.py")) << "pass\n"; }

  std::string path(const std::string& name) { return (directory_.path() / name).string(); }
  auto refuse(std::vector<std::string> command) {
    return [this, command] {
      require_program(command, {{"PATH", path("bin")}});
    };
  }

 private:
  os::TemporaryDirectory directory_;
};

TEST_F(RequireProgram, FindsItInPathOrByItsPath) {
  EXPECT_EQ(require_program({"sh", "-c", ""}, {{"PATH", "/nowhere:/bin"}}), "/bin/sh");
  EXPECT_EQ(require_program({"/bin/sh"}, {}), "/bin/sh");
  EXPECT_THAT(require_program({"python3", path("train.py")}, os::environment()),
              HasSubstr("python3"));
}

TEST_F(RequireProgram, ProposesTheFileThatWasPerhapsMeant) {
  EXPECT_THAT(refuse({path("trian.py.x")}), ThrowsMessage<Error>(HasSubstr("': no such file")));
  EXPECT_THAT(refuse({"python3", path("trian.py")}),
              ThrowsMessage<Error>(AllOf(HasSubstr("trian.py': no such file"),
                                         HasSubstr("try:       " + path("train.py")))));
}

TEST_F(RequireProgram, SaysWhatIsWrongWithAFileThatIsThere) {
  EXPECT_THAT(refuse({path("")}), ThrowsMessage<Error>(HasSubstr("it is a directory")));
  std::ofstream(path("notes.txt")) << "text\n";
  EXPECT_THAT(refuse({path("notes.txt")}),
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("notes.txt': it is not executable"), HasSubstr("chmod +x"))));
}

TEST_F(RequireProgram, SaysWhatIsNotInPath) {
  EXPECT_THAT(refuse({"no-such-program"}),
              ThrowsMessage<Error>(AllOf(HasSubstr("'no-such-program': no such program in PATH"),
                                         HasSubstr("for example ./no-such-program"))));
  EXPECT_THAT(refuse({"python3", path("train.py")}),
              ThrowsMessage<Error>(HasSubstr("python3 not found")));
}

TEST(PlaceWorkers, GivesEachItsOwnSlice) {
  plan::NodeSpec spec;
  spec.workers = 3;

  const auto devices = place_workers(spec, {{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}});

  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[0].gpus, "MIG-a");
  EXPECT_EQ(devices[1].gpus, "MIG-b");
  EXPECT_EQ(devices[2].gpus, "MIG-a") << "shared in turn";
}

TEST(PlaceWorkers, LeavesWholeGpusToTheWorkersUnlessTheyAreBound) {
  plan::NodeSpec spec;
  spec.workers = 2;
  const os::Environment environment = {{"CUDA_VISIBLE_DEVICES", "3,5"}};
  EXPECT_EQ(place_workers(spec, environment).at(1).gpus, "");

  spec.bind = plan::Bind::Gpu;
  EXPECT_EQ(place_workers(spec, environment).at(1).gpus, "5");
}

TEST(KeepAddresses, LeavesThoseThatAreMeant) {
  Join join;
  join.addresses = {{.interface = "mgmt0", .text = "10.11.0.1"},
                    {.interface = "fab0", .text = "10.12.0.1"}};
  Join all = join;
  Join by_address = join;
  Join by_interface = join;

  keep_addresses(all, "");
  keep_addresses(by_address, "10.12.0.1");
  keep_addresses(by_interface, "mgmt0");

  EXPECT_EQ(all, join);
  ASSERT_EQ(by_address.addresses.size(), 1U);
  EXPECT_EQ(by_address.addresses.front().interface, "fab0");
  ASSERT_EQ(by_interface.addresses.size(), 1U);
  EXPECT_EQ(by_interface.addresses.front().text, "10.11.0.1");
  EXPECT_THAT([&] { keep_addresses(join, "10.13.0.1"); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("'10.13.0.1' is not an address or interface of this host"),
                        HasSubstr("10.12.0.1 (fab0)"))));
}

}  // namespace
}  // namespace lockstep::supervisor
