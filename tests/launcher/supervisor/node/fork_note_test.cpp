// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/fork_note.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "support/golden.h"

namespace lockstep::supervisor {
namespace {

TEST(ForkNote, IsFoundInAProgramThatCarriesIt) {
  EXPECT_TRUE(program_takes_fork_offer(LOCKSTEP_FORK_SERVER_PROGRAM));
}

TEST(ForkNote, IsNotFoundInOthers) {
  EXPECT_FALSE(program_takes_fork_offer("/bin/sh"));
  EXPECT_FALSE(program_takes_fork_offer("/etc/passwd"));
  EXPECT_FALSE(program_takes_fork_offer("/no/such/file"));
  EXPECT_FALSE(program_takes_fork_offer("/"));
}

TEST(ForkNote, IsNotFoundInWhatIsLeftOfAProgram) {
  const os::TemporaryDirectory directory;
  const auto path = directory.path() / "cut";
  const std::string whole = testing::read_text(LOCKSTEP_FORK_SERVER_PROGRAM);
  for (const size_t bytes : {size_t{0}, size_t{3}, size_t{40}, size_t{64}, size_t{200}}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
    EXPECT_FALSE(program_takes_fork_offer(path)) << bytes;
  }
}

}  // namespace
}  // namespace lockstep::supervisor
