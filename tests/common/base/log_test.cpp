// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

using ::testing::IsEmpty;
using ::testing::MatchesRegex;

TEST(Log, WritesTimeLevelSpeakerAndTextToStderr) {
  log::open(log::Level::Info, "rank 3");
  ::testing::internal::CaptureStderr();

  log::info("train: resumed at step {}", 7);

  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              MatchesRegex("..:..:......* I rank 3 train: resumed at step 7\n"));
}

TEST(Log, OmitsMessagesBelowTheMinimumLevel) {
  log::open(log::Level::Warn, "");
  ::testing::internal::CaptureStderr();

  log::debug("a");
  log::info("b");

  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

}  // namespace
}  // namespace lockstep
