// SPDX-License-Identifier: Apache-2.0
#include "training/comm/two_level.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/collectives.h"
#include "support/gang.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

enum class Speaks { Each, Leader };

struct Shape {
  int neighbourhoods;
  int workers;  // in each
  Speaks speaks;
};

// Runs `body` on every worker of a hierarchical group: threads within threads.
void two_level_gang(const Shape& shape, const std::function<void(Communicator&)>& body) {
  gang(shape.neighbourhoods, [&](Communicator& across) {
    std::vector<std::unique_ptr<Communicator>> channels;
    for (int i = 0; i < shape.workers; ++i) {
      channels.push_back(across.subset(across.size()));
    }
    gang(shape.workers, [&](Communicator& near) {
      const bool speaks = shape.speaks == Speaks::Each || near.rank() == 0;
      const auto both =
          make_two_level(near,
                         speaks ? channels[static_cast<size_t>(near.rank())].get() : nullptr,
                         across.rank() * shape.workers + near.rank(),
                         shape.neighbourhoods * shape.workers,
                         "threads of threads");
      body(*both);
    });
  });
}

class TwoLevel : public ::testing::TestWithParam<Shape> {};

TEST_P(TwoLevel, KeepsEveryPromiseOfACommunicator) {
  two_level_gang(GetParam(), [](Communicator& comm) {
    EXPECT_EQ(faults_of_collectives(comm, torch::kCPU, {1, 7, 1001}), "");
  });
}

// A sum of fractions depends on the order; all workers must use the same one.
TEST_P(TwoLevel, GivesTheSameBitsToAll) {
  two_level_gang(GetParam(), [](Communicator& comm) {
    torch::Tensor sum = torch::sin(torch::arange(1001, torch::kFloat32) * (comm.rank() + 1));
    comm.all_reduce(sum);
    const torch::Tensor all = comm.all_gather(sum);
    for (int peer = 1; peer < comm.size(); ++peer) {
      EXPECT_TRUE(all[peer].equal(all[0])) << peer;
    }
  });
}

// A subgroup of a subgroup, with neighbourhoods cut in two twice.
TEST_P(TwoLevel, PartsHaveParts) {
  two_level_gang(GetParam(), [](Communicator& comm) {
    const auto most = comm.subset(comm.size() - 1);
    if (most != nullptr) {
      for (int count = 1; count <= most->size(); ++count) {
        const auto part = most->subset(count);
        if (part != nullptr) {
          EXPECT_EQ(part->kind(), "threads of threads");
          EXPECT_EQ(faults_of_collectives(*part, torch::kCPU, {5}), "") << count;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Every,
                         TwoLevel,
                         ::testing::Values(Shape{2, 2, Speaks::Each},
                                           Shape{2, 2, Speaks::Leader},
                                           Shape{3, 2, Speaks::Each},
                                           Shape{3, 2, Speaks::Leader},
                                           Shape{2, 3, Speaks::Each},
                                           Shape{2, 3, Speaks::Leader},
                                           Shape{2, 1, Speaks::Each},
                                           Shape{1, 2, Speaks::Leader}),
                         [](const auto& each) {
                           return std::to_string(each.param.neighbourhoods) + "x" +
                                  std::to_string(each.param.workers) +
                                  (each.param.speaks == Speaks::Each ? "Each" : "Leader");
                         });

TEST(TwoLevelFailure, EndsAllWorkersOfAllNeighbourhoods) {
  const auto run = [] {
    two_level_gang({2, 2, Speaks::Leader}, [](Communicator& comm) {
      if (comm.rank() == 3) {
        throw Error(ExitCode::Io, "the disk of rank 3 is full");
      }
      comm.barrier();
    });
  };

  EXPECT_THAT(run, ThrowsMessage<Error>(HasSubstr("the disk of rank 3 is full")));
}

}  // namespace
}  // namespace lockstep::comm
