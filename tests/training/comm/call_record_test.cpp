// SPDX-License-Identifier: Apache-2.0
#include "training/comm/call_record.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <thread>

#include "training/comm/solo.h"

namespace lockstep::comm {
namespace {

TEST(CallRecord, KnowsTheCallThatAWorkerIsIn) {
  CallRecord record;
  record.begin({.what = "all-reduce", .count = 1200, .type = torch::kFloat32});

  EXPECT_EQ(record.read().number, 1U);
  EXPECT_EQ(record.read().call, "all-reduce of 1 200 floats");
  EXPECT_TRUE(record.read().in_call);

  record.end(false);
  record.begin({.what = "broadcast", .count = 3, .type = torch::kFloat64, .root = 2});

  EXPECT_EQ(record.read().number, 2U);
  EXPECT_EQ(record.read().call, "broadcast of 3 doubles from rank 2");
}

TEST(CallRecord, KeepsTheOuterOfTwoStretchesAndAsMuchDetailAsItHasRoomFor) {
  Solo solo;
  const CallRecord& record = CommunicatorAccess::calls(solo);
  {
    const CallScope outer = solo.enter("the exchange of gradients", std::string(500, 'x'));
    const CallScope inner = solo.enter("something inside");
    EXPECT_EQ(record.read().scope, "the exchange of gradients");
    EXPECT_EQ(record.read().detail, fmt::format("{:x>192}...", ""));
    solo.barrier();
    EXPECT_TRUE(record.read().is_inside());
    EXPECT_FALSE(record.read().in_call);
  }

  EXPECT_FALSE(record.read().is_inside());
  EXPECT_EQ(record.read().number, 1U);
}

TEST(CallRecord, RemembersTheCallThatAnExceptionLeft) {
  Solo solo;
  try {
    const CallScope scope = solo.enter("the exchange of gradients");
    throw std::runtime_error("lost");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(CommunicatorAccess::calls(solo).read().failed);
    EXPECT_EQ(CommunicatorAccess::calls(solo).read().scope, "the exchange of gradients");
  }
  {
    const CallScope again = solo.enter("the next one");
    EXPECT_FALSE(CommunicatorAccess::calls(solo).read().failed);
    EXPECT_EQ(CommunicatorAccess::calls(solo).read().scope, "the next one");
  }
  EXPECT_FALSE(CommunicatorAccess::calls(solo).read().is_inside());
}

TEST(CallRecord, CountsTheTimeInCallsOfTheThreadThatTrains) {
  using std::chrono::milliseconds;
  CallRecord record;
  const auto call = [&record] {
    record.begin({.what = "barrier"});
    std::this_thread::sleep_for(milliseconds(20));
    record.end(false);
  };
  record.set_phase("data");
  std::thread(call).join();
  EXPECT_EQ(record.waited(), milliseconds(0));

  call();
  EXPECT_GE(record.waited(), milliseconds(20));

  const auto before = record.waited();
  {
    const Waiting waiting(record);
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_GE(record.waited() - before, milliseconds(20));
}

// Two kinds of calls alternate, each with its own number of elements. A reader that saw half of one
// and half of the other would show an impossible combination.
TEST(CallRecord, IsReadWholeWhileItChanges) {
  CallRecord record;
  std::jthread writer([&record](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      record.begin({.what = "all-gather", .count = 1, .type = torch::kFloat32});
      record.end(false);
      record.begin({.what = "barrier"});
      record.end(false);
    }
  });
  int odd = 0;
  // Until both kinds have been seen often. On a busy machine the other thread starts late.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int even = 0;
  while (std::min(odd, even) < 10000 && std::chrono::steady_clock::now() < end) {
    const CallView view = record.read();
    if (view.number > 0) {
      const bool is_odd = view.number % 2 == 1;
      (is_odd ? odd : even) += 1;
      ASSERT_EQ(view.call, is_odd ? "all-gather of 1 floats" : "barrier") << view.number;
    }
  }
  EXPECT_GT(std::min(odd, even), 0);
}

}  // namespace
}  // namespace lockstep::comm
