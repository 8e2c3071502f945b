// SPDX-License-Identifier: Apache-2.0
#include "lockstep/communicator.h"

#include <gmock/gmock.h>

#include "comm/solo.h"
#include "lockstep/error.h"
#include "support/collectives.h"
#include "support/gang.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Solo, KeepsEveryPromiseOfACommunicator) {
  comm::Solo solo;
  EXPECT_EQ(faults_of_collectives(solo), "");
}

TEST(ThreadGang, KeepsEveryPromiseOfACommunicator) {
  for (const int size : {2, 3}) {
    gang(size, [](Communicator& comm) { EXPECT_EQ(faults_of_collectives(comm), ""); });
  }
}

TEST(ThreadGang, EndsAllRanksWhenOneFailsAndTellsItsReason) {
  const auto run = [] {
    gang(3, [](Communicator& comm) {
      if (comm.rank() == 1) {
        throw Error(ExitCode::Io, "the disk of rank 1 is full");
      }
      comm.barrier();
    });
  };

  EXPECT_THAT(run, ThrowsMessage<Error>(HasSubstr("the disk of rank 1 is full")));
}

TEST(ReduceScatter, RefusesATensorWithoutASliceForEachWorker) {
  gang(2, [](Communicator& comm) {
    EXPECT_THAT(
        [&] {
          comm.reduce_scatter(torch::zeros({3, 4}));
        },
        ThrowsMessage<Error>(HasSubstr("no slice for each worker")));
  });
}

}  // namespace
}  // namespace lockstep
