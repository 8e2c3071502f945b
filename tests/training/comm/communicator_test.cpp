// SPDX-License-Identifier: Apache-2.0
#include "lockstep/communicator.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/collectives.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Solo, KeepsEveryPromiseOfACommunicator) {
  comm::Solo solo;
  EXPECT_EQ(faults_of_collectives(solo), "");
}

TEST(Solo, CopiesNothingThroughHostMemory) {
  comm::Solo solo;
  // A meta tensor has no values. A copy to the CPU would throw.
  torch::Tensor tensor = torch::empty({4}, torch::device(torch::kMeta));
  torch::Tensor output = torch::empty({4}, torch::device(torch::kMeta));

  solo.all_reduce(tensor);
  solo.broadcast(tensor);
  solo.all_gather_into(output, tensor);

  EXPECT_TRUE(solo.all_gather(tensor).is_meta());
  EXPECT_TRUE(solo.reduce_scatter(tensor.view({1, 4})).is_meta());
}

TEST(ThreadGroup, KeepsEveryPromiseOfACommunicator) {
  for (const int size : {2, 3}) {
    run_workers(size, [](Communicator& comm) { EXPECT_EQ(faults_of_collectives(comm), ""); });
  }
}

TEST(ThreadGroup, EndsAllRanksWhenOneFailsAndReportsItsReason) {
  const auto run = [] {
    run_workers(3, [](Communicator& comm) {
      if (comm.rank() == 1) {
        throw Error(ExitCode::Io, "the disk of rank 1 is full");
      }
      comm.barrier();
    });
  };

  EXPECT_THAT(run, ThrowsMessage<Error>(HasSubstr("the disk of rank 1 is full")));
}

// The messages of all workers, by rank, after they did not make the same call.
std::vector<std::string> sayings(const std::function<void(Communicator&)>& body) {
  std::vector<std::string> all(3);
  run_workers(3, [&](Communicator& comm) {
    try {
      body(comm);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Usage) << error.what();
      all[static_cast<size_t>(comm.rank())] = error.what();
      return;
    }
    all[static_cast<size_t>(comm.rank())] = "no Error";
  });
  return all;
}

TEST(ThreadGroup, NamesTheWorkersThatMakeDifferentCalls) {
  const auto all = sayings([](Communicator& comm) {
    torch::Tensor sum = torch::ones({1200});
    comm.rank() == 1 ? comm.barrier() : comm.all_reduce(sum);
  });

  const std::string wanted =
      "workers made different collective calls\n"
      "  ranks 0, 2: all-reduce of 1 200 floats\n"
      "  rank 1:     barrier\n"
      "  try:        make the same calls on every worker; if a worker has fewer batches, use "
      "StrategyOptions::uneven and Strategy::join()";
  EXPECT_THAT(all, ::testing::Each(wanted));
}

TEST(ThreadGroup, NamesWorkersWithTensorsOfDifferentShapesOrRoots) {
  const auto sizes = sayings([](Communicator& comm) {
    torch::Tensor sum = torch::ones({comm.rank() == 2 ? 10 : 20}, torch::kFloat64);
    comm.all_reduce(sum);
  });
  EXPECT_THAT(sizes[0], HasSubstr("ranks 0, 1: all-reduce of 20 doubles\n"));
  EXPECT_THAT(sizes[0], HasSubstr("rank 2:     all-reduce of 10 doubles\n"));

  const auto roots = sayings([](Communicator& comm) {
    torch::Tensor sent = torch::ones({3});
    comm.broadcast(sent, comm.rank() == 0 ? 0 : 1);
  });
  EXPECT_THAT(roots[2], HasSubstr("rank 0:     broadcast of 3 floats from rank 0\n"));
}

TEST(ThreadGroup, NamesAWorkerThatHasEndedWhileOthersGoOn) {
  const auto all = sayings([](Communicator& comm) {
    if (comm.rank() != 2) {
      comm.barrier();
    }
  });

  // The first worker that notices may not have waited for the other.
  EXPECT_THAT(all[0], HasSubstr("barrier\n"));
  EXPECT_THAT(all[0], ::testing::ContainsRegex("rank 2: +the end of the program\n"));
  EXPECT_EQ(all[1], all[0]);
  EXPECT_EQ(all[2], "no Error");
}

TEST(ReduceScatter, RefusesATensorWithoutASliceForEachWorker) {
  run_workers(2, [](Communicator& comm) {
    EXPECT_THAT(
        [&] {
          comm.reduce_scatter(torch::zeros({3, 4}));
        },
        ThrowsMessage<Error>(HasSubstr("one slice of the tensor per worker")));
  });
}

TEST(AllReduce, RefusesComplexNumbers) {
  run_workers(2, [](Communicator& comm) {
    torch::Tensor tensor = torch::zeros({2}, torch::kComplexFloat);
    EXPECT_THAT([&] { comm.all_reduce(tensor); },
                ThrowsMessage<Error>(AllOf(HasSubstr("cannot reduce a tensor of complex numbers"),
                                           HasSubstr("ComplexFloat"))));
  });
}

}  // namespace
}  // namespace lockstep
