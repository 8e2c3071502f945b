// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/sample_thread.h"

#include <atomic>
#include <gmock/gmock.h>
#include <memory>
#include <stdexcept>

#include "common/base/text.h"
#include "common/os/pipe.h"
#include "support/comes_true.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Lt;
using Clock = std::chrono::steady_clock;

// A sampling function that counts its calls in the field `node`.
SampleThread::Look counting() {
  return [count = 0](const SampleThread::Workers& workers) mutable {
    contract::NodeSample sample{.time = 1, .node = count++, .host = "here"};
    for (const cluster::WatchedWorker& worker : workers) {
      sample.workers.push_back({.rank = worker.rank});
    }
    return sample;
  };
}

// Waits until the descriptor is readable.
std::string next_lines(SampleThread& sampler) {
  os::Watch watch{.fd = sampler.fd(), .for_write = false, .is_ready = false};
  os::wait_for({&watch, 1}, milliseconds(10'000));
  return sampler.take_lines();
}

TEST(SampleThread, RingsForEverySample) {
  SampleThread sampler(milliseconds(10), counting);
  sampler.set_workers({{.rank = 4, .pid = 1, .visible_gpus = {}}});

  std::string lines;
  while (split(lines, '\n').size() < 4) {
    lines += next_lines(sampler);
  }

  const auto all = split(lines, '\n');
  EXPECT_EQ(contract::parse_node_sample(all[0]).node, 0);
  EXPECT_EQ(contract::parse_node_sample(all[1]).node, 1);
  EXPECT_EQ(contract::parse_node_sample(all[2]).workers.at(0).rank, 4);
}

TEST(SampleThread, HoldsABoundedNumberOfUnreadSamples) {
  std::atomic<int> taken = 0;
  SampleThread sampler(milliseconds(0), [&taken]() -> SampleThread::Look {
    return [&taken](const SampleThread::Workers&) {
      ++taken;
      return contract::NodeSample{};
    };
  });
  while (taken < 500) {
    std::this_thread::sleep_for(milliseconds(1));
  }

  EXPECT_THAT(split(sampler.take_lines(), '\n').size(), Lt(70U));
}

TEST(SampleThread, ThatFailsSaysSoOnceAndStops) {
  SampleThread sampler(milliseconds(1), []() -> SampleThread::Look {
    return [](const SampleThread::Workers&) -> contract::NodeSample {
      throw std::runtime_error("the driver went away");
    };
  });

  EXPECT_THAT(next_lines(sampler), IsEmpty());
  EXPECT_EQ(sampler.take_fault(), "the driver went away");
  EXPECT_EQ(sampler.take_fault(), "");
}

TEST(SampleThread, ThatHangsDoesNotKeepItsOwner) {
  static std::atomic<bool> has_begun = false;
  static std::atomic<bool> may_end = false;
  const auto began = Clock::now();
  {
    const SampleThread sampler(milliseconds(1), []() -> SampleThread::Look {
      return [](const SampleThread::Workers&) {
        has_begun = true;
        while (!may_end) {
          std::this_thread::sleep_for(milliseconds(5));
        }
        return contract::NodeSample{};
      };
    });
    while (!has_begun) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  const auto waited = Clock::now() - began;
  may_end = true;

  EXPECT_THAT(waited, Ge(std::chrono::seconds(2)));
}

TEST(SampleThread, EndsAtOnceBetweenTwoSamples) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> held_by_thread = held;
  {
    SampleThread sampler(std::chrono::hours(1), [held] { return counting(); });
    held.reset();
    next_lines(sampler);
  }

  EXPECT_TRUE(lockstep::testing::comes_true([&] { return held_by_thread.expired(); }));
}

}  // namespace
}  // namespace lockstep::supervisor
