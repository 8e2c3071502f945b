// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Error, IsItsSentenceWhenThereIsNothingElseToSay) {
  const Error error(ExitCode::Io, "cannot write 'a'");

  EXPECT_STREQ(error.what(), "cannot write 'a'");
  EXPECT_EQ(error.code(), ExitCode::Io);
  EXPECT_EQ(error.sentence(), "cannot write 'a'");
}

TEST(Error, AlignsFactsWithTheirSourceAndTheHint) {
  const Error error = Error(ExitCode::Usage, "cannot place 6 workers on gpu-03")
                          .fact("requested", "--gpus-per-node 6", "command line")
                          .fact("found here", "4 GPUs")
                          .hint("--gpus-per-node 4");

  EXPECT_STREQ(error.what(),
               "cannot place 6 workers on gpu-03\n"
               "  requested:  --gpus-per-node 6  (command line)\n"
               "  found here: 4 GPUs\n"
               "  try:        --gpus-per-node 4");
}

TEST(Error, IsEnrichedWhereItIsCaught) {
  Error error(ExitCode::Io, "cannot read 'a'");

  error.fact("rank", "3");

  EXPECT_STREQ(error.what(), "cannot read 'a'\n  rank: 3");
}

TEST(ExitCode, HasTheNumbersOfTheContract) {
  EXPECT_EQ(static_cast<int>(ExitCode::Done), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::Usage), 64);
  EXPECT_EQ(static_cast<int>(ExitCode::Unavailable), 69);
  EXPECT_EQ(static_cast<int>(ExitCode::Bug), 70);
  EXPECT_EQ(static_cast<int>(ExitCode::Io), 74);
  EXPECT_EQ(static_cast<int>(ExitCode::TryAgain), 75);
  EXPECT_EQ(static_cast<int>(ExitCode::Interrupted), 130);
}

}  // namespace
}  // namespace lockstep
