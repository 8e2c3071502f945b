// SPDX-License-Identifier: Apache-2.0
#include "common/os/reactor.h"

#include <chrono>
#include <gtest/gtest.h>

#include "common/os/pipe.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class ReactorOnPipes : public ::testing::Test {
 protected:
  void turn() { reactor.turn(milliseconds(0)); }

  Reactor reactor;
  Pipe pipe = make_pipe();
  int calls = 0;
};

TEST_F(ReactorOnPipes, CallsAsLongAsSomethingIsReadable) {
  reactor.watch(pipe.out.number(), Reactor::For::Read, [this] { ++calls; });
  turn();
  EXPECT_EQ(calls, 0);

  write_all(pipe.in.number(), "x");
  turn();
  turn();

  EXPECT_EQ(calls, 2);
}

TEST_F(ReactorOnPipes, CallsForWritingAndForAnEnd) {
  reactor.watch(pipe.in.number(), Reactor::For::Write, [this] { ++calls; });
  turn();
  EXPECT_EQ(calls, 1);
  reactor.forget(pipe.in.number());

  reactor.watch(pipe.out.number(), Reactor::For::Read, [this] { ++calls; });
  pipe.in.close();
  turn();

  EXPECT_EQ(calls, 2);
}

TEST_F(ReactorOnPipes, ForgetsOnRequest) {
  reactor.watch(pipe.out.number(), Reactor::For::Read, [this] { ++calls; });
  write_all(pipe.in.number(), "x");

  reactor.forget(pipe.out.number());
  reactor.forget(pipe.out.number());
  reactor.forget(-1);
  turn();

  EXPECT_EQ(calls, 0);
}

TEST_F(ReactorOnPipes, ReplacesEarlierValues) {
  reactor.watch(pipe.out.number(), Reactor::For::Read, [this] { calls += 100; });
  reactor.watch(pipe.out.number(), Reactor::For::Read, [this] { ++calls; });
  write_all(pipe.in.number(), "x");

  turn();

  EXPECT_EQ(calls, 1);
}

TEST_F(ReactorOnPipes, LetsAHandlerForgetAndReplaceItself) {
  reactor.watch(pipe.out.number(), Reactor::For::Read, [this] {
    reactor.watch(pipe.out.number(), Reactor::For::Read, [this] {
      calls += 10;
      reactor.forget(pipe.out.number());
    });
    ++calls;
  });
  write_all(pipe.in.number(), "x");

  turn();
  turn();
  turn();

  EXPECT_EQ(calls, 11);
}

// Both are ready at the same time. The handler that is called first closes the descriptor of the
// other, and its number is reused for a new descriptor.
TEST_F(ReactorOnPipes, CallsNoHandlerForAReusedDescriptor) {
  Pipe other = make_pipe();
  Pipe fresh;
  int calls_of_fresh = 0;
  const auto replace = [&](Pipe& victim) {
    ++calls;
    const int number = victim.out.number();
    reactor.forget(number);
    victim.out.close();
    fresh = make_pipe();
    EXPECT_EQ(fresh.out.number(), number);
    write_all(fresh.in.number(), "x");
    reactor.watch(number, Reactor::For::Read, [&] { ++calls_of_fresh; });
  };
  reactor.watch(pipe.out.number(), Reactor::For::Read, [&] { replace(other); });
  reactor.watch(other.out.number(), Reactor::For::Read, [&] { replace(pipe); });
  write_all(pipe.in.number(), "x");
  write_all(other.in.number(), "x");

  turn();

  EXPECT_EQ(calls, 1);
  EXPECT_EQ(calls_of_fresh, 0) << "it is ready, but the turn had begun before";
}

TEST_F(ReactorOnPipes, WatchesANumberThatWasClosedWithoutAWordAndOpenedAgain) {
  const int number = pipe.out.number();
  reactor.watch(number, Reactor::For::Read, [this] { calls += 100; });
  pipe = Pipe{};
  Pipe again = make_pipe();
  ASSERT_EQ(again.out.number(), number);

  reactor.watch(number, Reactor::For::Read, [this] { ++calls; });
  write_all(again.in.number(), "x");
  turn();

  EXPECT_EQ(calls, 1);
}

// A wait without an end would exceed the time limit of the test.
TEST_F(ReactorOnPipes, WaitsNoLongerThanTheTimeout) {
  const auto began = steady_clock::now();

  reactor.turn(milliseconds(20));
  reactor.turn(milliseconds(-5));

  EXPECT_GE(steady_clock::now() - began, milliseconds(19));
}

TEST_F(ReactorOnPipes, RefusesWhatCannotBeWatched) {
  EXPECT_THROW(reactor.watch(-1, Reactor::For::Read, [] {}), Error);
  EXPECT_THROW(reactor.watch(1 << 20, Reactor::For::Read, [] {}), Error);
}

}  // namespace
}  // namespace lockstep::os
