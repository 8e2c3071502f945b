// SPDX-License-Identifier: Apache-2.0
#include "training/comm/hierarchical_communicator.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/collectives.h"
#include "support/run_workers.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

enum class Bridge { Each, Leader };

struct Shape {
  int inner_groups;
  int workers;  // in each
  Bridge bridge;
};

// Runs `body` on every worker of a hierarchical group: threads within threads.
void run_hierarchical(const Shape& shape, const std::function<void(Communicator&)>& body) {
  run_workers(shape.inner_groups, [&](Communicator& across) {
    std::vector<std::unique_ptr<Communicator>> channels;
    for (int i = 0; i < shape.workers; ++i) {
      channels.push_back(across.subset(across.size()));
    }
    run_workers(shape.workers, [&](Communicator& near) {
      const bool uses_outer = shape.bridge == Bridge::Each || near.rank() == 0;
      const auto both = make_hierarchical_communicator(
          near,
          uses_outer ? channels[static_cast<size_t>(near.rank())].get() : nullptr,
          across.rank() * shape.workers + near.rank(),
          shape.inner_groups * shape.workers,
          "threads of threads");
      body(*both);
    });
  });
}

class HierarchicalCommunicator : public ::testing::TestWithParam<Shape> {};

TEST_P(HierarchicalCommunicator, KeepsEveryPromiseOfACommunicator) {
  run_hierarchical(GetParam(), [](Communicator& comm) {
    EXPECT_EQ(faults_of_collectives(comm, torch::kCPU, {1, 7, 1001}), "");
  });
}

// A sum of fractions depends on the order; all workers must use the same one.
TEST_P(HierarchicalCommunicator, GivesTheSameBitsToAll) {
  run_hierarchical(GetParam(), [](Communicator& comm) {
    torch::Tensor sum = torch::sin(torch::arange(1001, torch::kFloat32) * (comm.rank() + 1));
    comm.all_reduce(sum);
    const torch::Tensor all = comm.all_gather(sum);
    for (int peer = 1; peer < comm.size(); ++peer) {
      EXPECT_TRUE(all[peer].equal(all[0])) << peer;
    }
  });
}

// A subgroup of a subgroup, with inner groups cut in two twice.
TEST_P(HierarchicalCommunicator, PartsHaveParts) {
  run_hierarchical(GetParam(), [](Communicator& comm) {
    const auto maximum = comm.subset(comm.size() - 1);
    if (maximum != nullptr) {
      for (int count = 1; count <= maximum->size(); ++count) {
        const auto part = maximum->subset(count);
        if (part != nullptr) {
          EXPECT_EQ(part->kind(), "threads of threads");
          EXPECT_EQ(faults_of_collectives(*part, torch::kCPU, {5}), "") << count;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Every,
                         HierarchicalCommunicator,
                         ::testing::Values(Shape{2, 2, Bridge::Each},
                                           Shape{2, 2, Bridge::Leader},
                                           Shape{3, 2, Bridge::Each},
                                           Shape{3, 2, Bridge::Leader},
                                           Shape{2, 3, Bridge::Each},
                                           Shape{2, 3, Bridge::Leader},
                                           Shape{2, 1, Bridge::Each},
                                           Shape{1, 2, Bridge::Leader}),
                         [](const auto& each) {
                           return std::to_string(each.param.inner_groups) + "x" +
                                  std::to_string(each.param.workers) +
                                  (each.param.bridge == Bridge::Each ? "Each" : "Leader");
                         });

TEST(HierarchicalCommunicatorFailure, EndsAllWorkersOfAllInnerGroups) {
  const auto run = [] {
    run_hierarchical({2, 2, Bridge::Leader}, [](Communicator& comm) {
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
