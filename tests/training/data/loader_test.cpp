// SPDX-License-Identifier: Apache-2.0
#include "lockstep/loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/os/processors.h"
#include "support/comes_true.h"
#include "training/data/message_of.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::comes_true;
using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

// Sample i is {i}; the function is called with each index first, on the thread of the batch.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::function<void(int64_t)> look = [](int64_t) {}) : look_(std::move(look)) {}

  int64_t size() const override { return 1000; }
  Example example(int64_t index) const override {
    look_(index);
    return {torch::full({1}, static_cast<double>(index)), torch::tensor(index)};
  }

 private:
  std::function<void(int64_t)> look_;
};

std::string thread_name() {
  std::array<char, 16> name = {};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

// Step s has only sample s.
std::vector<int64_t> itself(int64_t step) {
  return {step};
}

std::vector<int64_t> read_all(Loader loader) {
  std::vector<int64_t> seen;
  while (const auto batch = loader.next()) {
    for (int64_t i = 0; i < batch->size(); ++i) {
      seen.push_back(batch->target[i].item<int64_t>());
    }
  }
  return seen;
}

TEST(Loader, GivesTheSameBatchesInOrderWhateverTheThreads) {
  const auto dataset = std::make_shared<Numbers>([](int64_t index) {
    std::this_thread::sleep_for(std::chrono::microseconds(index * 37 % 300));
  });
  const DistributedSampler sampler({.dataset_size = 1000,
                                    .global_batch = 16,
                                    .rank = 1,
                                    .world_size = 2,
                                    .tail = Tail::Pad,
                                    .seed = 5});
  const auto reference = read_all(Loader(dataset, sampler, {.threads = 0}));

  EXPECT_EQ(reference.size(), 63U * 8);
  for (const int threads : {1, 2, 5}) {
    for (const int prefetch : {1, 2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} threads, {} ahead", threads, prefetch));
      const LoaderOptions options = {.threads = threads, .prefetch = prefetch};
      EXPECT_EQ(read_all(Loader(dataset, sampler, options)), reference);
    }
  }
}

TEST(Loader, BeginsInTheMiddleOfAnEpoch) {
  for (const int threads : {0, 1, 3}) {
    const LoaderOptions options = {.first_step = 5, .threads = threads};
    EXPECT_THAT(read_all(Loader(std::make_shared<Numbers>(), 8, itself, options)),
                ElementsAre(5, 6, 7));
    const LoaderOptions at_the_end = {.first_step = 8, .threads = threads};
    EXPECT_THAT(read_all(Loader(std::make_shared<Numbers>(), 8, itself, at_the_end)),
                ElementsAre());
  }
}

TEST(Loader, StaysAtTheEnd) {
  for (const int threads : {0, 1}) {
    Loader loader(std::make_shared<Numbers>(), 1, itself, {.threads = threads});

    EXPECT_TRUE(loader.next().has_value());
    EXPECT_FALSE(loader.next().has_value());
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(Loader, KeepsItsEpochWhileTheSamplerGoesOn) {
  DistributedSampler sampler({.dataset_size = 1000,
                              .global_batch = 100,
                              .rank = 0,
                              .world_size = 1,
                              .tail = Tail::Drop,
                              .seed = 5});
  const auto dataset = std::make_shared<Numbers>();
  const auto reference = read_all(Loader(dataset, sampler, {.threads = 0}));
  Loader loader(dataset, sampler, {.threads = 2, .prefetch = 1});
  sampler.set_epoch(1);

  EXPECT_EQ(read_all(std::move(loader)), reference);
}

TEST(Loader, EvaluatesEverySampleExactlyOnceOverAllWorkers) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    const auto mine =
        read_all(Loader(std::make_shared<Numbers>(), EvaluationSampler({1000, 64, rank, 3}), {}));
    all.insert(all.end(), mine.begin(), mine.end());
  }

  EXPECT_EQ(all.size(), 1000U);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 1000U);
}

TEST(Loader, RethrowsInPlaceWhatWasThrownOnAThread) {
  const auto dataset = std::make_shared<Numbers>([](int64_t index) {
    if (index >= 2) {
      throw std::runtime_error(fmt::format("sample {} is damaged", index));
    }
  });
  for (const int threads : {0, 1, 4}) {
    SCOPED_TRACE(threads);
    Loader loader(dataset, 100, itself, {.threads = threads});

    EXPECT_TRUE(loader.next().has_value());
    EXPECT_TRUE(loader.next().has_value());
    for (int again = 0; again < 3; ++again) {
      EXPECT_THAT([&] { loader.next(); }, ThrowsMessage<std::runtime_error>("sample 2 is damaged"));
    }
  }
}

TEST(Loader, CarriesExceptionsOfTheIndexSourceToo) {
  Loader loader(std::make_shared<Numbers>(),
                3,
                [](int64_t) -> std::vector<int64_t> { throw std::out_of_range("no such step"); },
                {});

  EXPECT_THAT([&] { loader.next(); }, ThrowsMessage<std::out_of_range>("no such step"));
}

// Expects that the loader makes exactly `ahead` batches before the first is taken, and never more
// later. It refills the ring when half of it is free; a thread that happens to be awake may refill
// it earlier, so less than half of it may stay free between two calls of next(). The index source
// is called once per batch, on the thread that makes it, and there compares the step with the
// number of batches taken so far. That number is raised before next(), so a correct loader never
// exceeds it, however slow the machine.
void expect_ahead(LoaderOptions options, int64_t ahead) {
  constexpr int64_t kSteps = 300;
  std::atomic<int64_t> taken = 0;
  std::atomic<int64_t> made = 0;
  std::atomic<int64_t> too_early = 0;
  const auto indices = [&](int64_t step) {
    too_early += step >= taken + ahead ? 1 : 0;
    ++made;
    return itself(step);
  };
  Loader loader(std::make_shared<Numbers>(), kSteps, indices, options);
  const int64_t may_be_free = (ahead - 1) / 2;
  EXPECT_TRUE(comes_true([&] { return made >= ahead; }));
  while (taken + ahead < kSteps) {
    ASSERT_TRUE(comes_true([&] { return made >= taken + ahead - may_be_free; })) << taken;
    for (int64_t i = 0; i < (ahead + 1) / 2; ++i) {
      ++taken;
      loader.next();
    }
  }

  EXPECT_EQ(too_early, 0);
}

TEST(Loader, MakesNoMoreBatchesAheadThanAskedFor) {
  expect_ahead({.threads = 3, .prefetch = 5}, 5);
}

TEST(Loader, MakesTwoBatchesMoreThanThreadsAheadAndAtLeastFour) {
  const int by_cores = std::max(1, os::usable_processors() - 1);
  for (const auto& [threads, ahead] :
       {std::pair(1, 4), std::pair(3, 5), std::pair(-1, std::max(4, by_cores + 2))}) {
    SCOPED_TRACE(threads);
    expect_ahead({.threads = threads}, ahead);
  }
}

TEST(Loader, TakesAThreadForEachGrantedCoreButOne) {
  std::mutex mutex;
  std::set<std::string> names;
  const auto dataset = std::make_shared<Numbers>([&](int64_t) {
    const std::lock_guard lock(mutex);
    names.insert(thread_name());
  });
  const std::vector<int> granted = os::usable_processor_numbers();
  std::jthread bound([&] {
    os::ProcessorMask({granted.front()}).apply();
    read_all(Loader(dataset, 200, itself, {.threads = -1}));
  });
  bound.join();

  EXPECT_THAT(names, ElementsAre("loader-0"));
}

// All samples but the first wait until the loader is about to be destroyed. From then on each takes
// 20 ms: the 500 of this limit take 5 s, the two in progress at the end take 20 ms.
TEST(Loader, StopsWithoutMakingTheRest) {
  std::atomic<int64_t> made = 0;
  std::atomic<bool> is_ending = false;
  const auto dataset = std::make_shared<Numbers>([&](int64_t index) {
    if (index > 0) {
      is_ending.wait(false);
      std::this_thread::sleep_for(milliseconds(20));
    }
    ++made;
  });
  auto loader = std::make_unique<Loader>(
      dataset, 1000, itself, LoaderOptions{.threads = 2, .prefetch = 1000});
  loader->next();
  is_ending = true;
  is_ending.notify_all();
  loader.reset();

  EXPECT_LT(made, 500);
}

// A loader that does not wake its threads hangs here until the time limit of the test.
TEST(Loader, StopsWhileItsThreadsSleepOnAFullRing) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int64_t> made = 0;
    const auto dataset = std::make_shared<Numbers>([&](int64_t) { ++made; });
    const Loader loader(dataset, 1000, itself, {.threads = 2, .prefetch = 1});
    EXPECT_TRUE(comes_true([&] { return made == 1; }));
  }
}

TEST(Loader, MakesBatchesOnNamedThreadsOrOnNone) {
  std::mutex mutex;
  std::set<std::string> names;
  const auto dataset = std::make_shared<Numbers>([&](int64_t) {
    const std::lock_guard lock(mutex);
    names.insert(thread_name());
    std::this_thread::sleep_for(milliseconds(1));
  });
  read_all(Loader(dataset, 20, itself, {.threads = 1}));

  EXPECT_THAT(names, ElementsAre("loader-0"));
  names.clear();
  read_all(Loader(dataset, 2, itself, {.threads = 0}));
  EXPECT_THAT(names, ElementsAre(thread_name()));
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](LoaderOptions options) {
    return message_of([&] { Loader(std::make_shared<Numbers>(), 8, itself, options); });
  };

  EXPECT_EQ(refusal({.threads = -2}),
            "64 cannot load batches: the number of threads is -2\n"
            "  expected: 0 or more; -1: number of cores");
  EXPECT_EQ(refusal({.prefetch = -1}),
            "64 cannot load batches: the number of prefetched batches is -1\n"
            "  expected: 1 or more; 0: from the number of threads");
  EXPECT_EQ(refusal({.first_step = 9}),
            "64 cannot load batches: the first step is 9\n"
            "  expected: 0 to 8, the number of steps");
}

TEST(Loader, PinsMemoryWhereThereIsAGpuAndRefusesElsewhere) {
  const LoaderOptions options = {.pin_memory = true};
  if (!torch::cuda::is_available()) {
    EXPECT_EQ(message_of([&] { Loader(std::make_shared<Numbers>(), 8, itself, options); }),
              "64 cannot pin memory: libtorch finds no GPU\n"
              "  try: LoaderOptions{.pin_memory = false}");
    return;
  }
  Loader loader(std::make_shared<Numbers>(), 8, itself, options);
  const auto batch = loader.next();

  EXPECT_TRUE(batch->input.is_pinned());
  EXPECT_TRUE(batch->target.is_pinned());
}

}  // namespace
}  // namespace lockstep
