// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/sweep.h"

#include <gmock/gmock.h>

#include "launcher/slurm/job_fixture.h"

namespace lockstep::slurm {
namespace {

using lockstep::testing::settings_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(const std::string& yaml) {
  std::vector<std::string> names;
  for (const JobSettings& one : expand_mode(settings_of(yaml))) {
    names.push_back(one.text("job_name"));
  }
  return names;
}

TEST(Mode, SingleIsOneJob) {
  EXPECT_THAT(names_of("num_nodes: 2"), ElementsAre("ddp-2x4"));
}

TEST(Mode, RunallIsOneJobOfEachStrategy) {
  EXPECT_THAT(names_of("mode: runall\nnum_nodes: 2"),
              ElementsAre("ddp-2x4", "deepspeed-2x4", "horovod-2x4"));
}

TEST(Mode, ScalingTestIsOneOfEachStrategyAndNodeCount) {
  EXPECT_THAT(
      names_of("mode: scaling-test\nscalability_nodes: \"1, 2\"\ngpus_per_node: 2"),
      ElementsAre(
          "ddp-1x2", "ddp-2x2", "deepspeed-1x2", "deepspeed-2x2", "horovod-1x2", "horovod-2x2"));
}

TEST(Mode, DistinguishesJobsWithAFixedName) {
  EXPECT_THAT(names_of("mode: runall\njob_name: x"),
              ElementsAre("x-ddp", "x-deepspeed", "x-horovod"));
  EXPECT_THAT(
      names_of("mode: scaling-test\nscalability_nodes: [1]\njob_name: t-${distributed_strategy}"),
      ElementsAre("t-ddp-1x4", "t-deepspeed-1x4", "t-horovod-1x4"));
}

TEST(Mode, RefusesWhatIsNone) {
  EXPECT_THAT([] { names_of("mode: all"); }, ThrowsMessage<Error>(HasSubstr("runall")));
  EXPECT_THAT([] { names_of("mode: scaling-test\nscalability_nodes: [1, x]"); },
              ThrowsMessage<Error>(HasSubstr("invalid node count 'x'")));
  EXPECT_THAT([] { names_of("mode: scaling-test\nscalability_nodes: []"); },
              ThrowsMessage<Error>(HasSubstr("requires node counts")));
}

}  // namespace
}  // namespace lockstep::slurm
