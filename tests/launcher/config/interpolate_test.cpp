// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/interpolate.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::config {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& known() {
  static const std::vector<std::string> kKnown = {"num_nodes", "time"};
  return kKnown;
}

std::string replace(const std::string& text) {
  return interpolate(
      scalar(text),
      [](const std::string& name) {
        return name == "num_nodes" ? std::optional<std::string>("2") : std::nullopt;
      },
      known());
}

TEST(Interpolate, PutsValuesForKeys) {
  EXPECT_EQ(replace("job-${num_nodes}x${num_nodes}"), "job-2x2");
  EXPECT_EQ(replace("plain"), "plain");
  EXPECT_EQ(replace(""), "");
}

TEST(Interpolate, LeavesTheShellWhatIsTheShells) {
  EXPECT_EQ(replace("${SLURM_JOB_ID} $x ${num_nodes:-3} ${"),
            "${SLURM_JOB_ID} $x ${num_nodes:-3} ${");
  EXPECT_EQ(replace("a $${num_nodes} b"), "a ${num_nodes} b");
}

TEST(Interpolate, ProposesTheClosestKey) {
  try {
    replace("x${num_node}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("unknown key 'num_node'"));
    EXPECT_THAT(error.what(), HasSubstr("try:      ${num_nodes}"));
    EXPECT_THAT(error.what(), HasSubstr("$${num_node} if the shell is to"));
  }
}

}  // namespace
}  // namespace lockstep::config
