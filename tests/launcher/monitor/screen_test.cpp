// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/screen.h"

#include <gmock/gmock.h>
#include <limits>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"
#include "launcher/monitor/event_store.h"
#include "launcher/monitor/keys.h"
#include "launcher/monitor/rank_row.h"
#include "support/fake_run.h"
#include "support/golden.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::expect_golden;
using lockstep::testing::FakeRun;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Screen : public ::testing::Test {
 protected:
  Screen() {
    fake_run_.write_all();
    store_.poll();
    snapshot_ = store_.snapshot();
  }

  std::string show(const ScreenState& state, const ScreenSize& size) const {
    const auto loss =
        store_.series("loss", 0, std::numeric_limits<double>::infinity(), curve_columns(size));
    return plain_text(render_screen(snapshot_, loss, state, size, FakeRun::kStart + 22));
  }

  std::vector<int> order(Sort sort) const {
    std::vector<int> ranks;
    const ScreenState state{.sort = sort};
    for (const RankView* rank : choose_ranks(snapshot_, state)) {
      ranks.push_back(rank->rank);
    }
    return ranks;
  }

  FakeRun fake_run_;
  EventStore store_{fake_run_.run()};
  Snapshot snapshot_;
};

TEST_F(Screen, ShowsTheRunAndARowPerRank) {
  expect_golden(show({}, {.columns = 110, .rows = 0}), "watch.txt");
}

TEST_F(Screen, FitsIntoASmallTerminal) {
  const std::string page = show({.sort = Sort::Late}, {.columns = 80, .rows = 10});

  expect_golden(page, "watch_small.txt");
  const std::vector<std::string> lines = split(page, '\n');
  for (const std::string& line : lines) {
    EXPECT_LE(columns_of(line), 80U) << line;
  }
  for (const size_t rows : {1, 2, 5, 6, 7, 24}) {
    const auto drawn = render_screen(snapshot_, {}, {}, {.columns = 20, .rows = rows}, 0);
    EXPECT_EQ(drawn.size(), rows);
  }
}

TEST_F(Screen, SaysThatNoRankHasReportedYet) {
  snapshot_ = {};
  EXPECT_THAT(show({}, {.columns = 80, .rows = 0}), HasSubstr("no rank has reported yet"));
}

TEST_F(Screen, ScrollsToTheLastRowAndNotBeyond) {
  ScreenState state;
  press(state, "end");
  const std::string page = show(state, {.columns = 80, .rows = 10});

  EXPECT_THAT(page, HasSubstr("rows 3-4 of 4"));
  press(state, "home");
  press(state, "up");
  EXPECT_THAT(show(state, {.columns = 80, .rows = 10}), HasSubstr("rows 1-2 of 4"));
}

TEST_F(Screen, ShowsOnlyWhatTheFilterLetsThrough) {
  ScreenState state;
  for (const char* key : {"/", "N", "O", "D", "E", "-", "b", "x", "backspace"}) {
    press(state, key);
  }
  EXPECT_THAT(show(state, {.columns = 80, .rows = 20}), HasSubstr("filter: NODE-b_"));
  press(state, "enter");
  EXPECT_EQ(choose_ranks(snapshot_, state).size(), 2U);
  press(state, "q");
  EXPECT_TRUE(state.is_left);
  press(state, "escape");
  EXPECT_THAT(state.filter, IsEmpty());
  EXPECT_THAT(show({.filter = "zzz"}, {.columns = 80, .rows = 0}),
              HasSubstr("no rank matches the filter"));
}

TEST_F(Screen, SortsByWhatMatters) {
  EXPECT_THAT(order(Sort::Rank), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(order(Sort::Gpu), ElementsAre(0, 1, 2, 3));     // the most idle first
  EXPECT_THAT(order(Sort::Cpu), ElementsAre(1, 3, 0, 2));     // the busiest first
  EXPECT_THAT(order(Sort::Memory), ElementsAre(1, 3, 0, 2));  // the largest first
  EXPECT_THAT(order(Sort::Late), ElementsAre(2, 0, 1, 3));
  snapshot_.ranks[3].step = 39;
  EXPECT_THAT(order(Sort::Step), ElementsAre(3, 0, 1, 2));
  ScreenState state;
  for (const char* name : {"step", "loss", "gpu", "cpu", "memory", "late", "rank"}) {
    press(state, "s");
    EXPECT_EQ(name_of(state.sort), name);
    EXPECT_EQ(find_sort(name), state.sort);
  }
}

TEST_F(Screen, ExplainsItselfUntilAKeyIsPressed) {
  ScreenState state;
  press(state, "?");
  EXPECT_THAT(show(state, {.columns = 80, .rows = 24}),
              HasSubstr("own step time, without waiting"));
  press(state, "q");
  EXPECT_FALSE(state.is_left);
  EXPECT_FALSE(state.wants_help);
}

TEST(Keys, HaveNames) {
  EXPECT_THAT(keys_of("q/ä"), ElementsAre("q", "/", "ä"));
  EXPECT_THAT(keys_of("\x1b[A\x1b[B\x1bOA\x1b[5~\x1b[6~\x1b[H\x1b[F"),
              ElementsAre("up", "down", "up", "page up", "page down", "home", "end"));
  EXPECT_THAT(keys_of("\x1b"), ElementsAre("escape"));
  EXPECT_THAT(keys_of("\r\x7f"), ElementsAre("enter", "backspace"));
  EXPECT_THAT(keys_of("\x1b[1;5Cx\x01"), ElementsAre("x"));
}

TEST(Drawing, FillsBarsInEighths) {
  EXPECT_EQ(bar(0.5, 4), "██  ");
  EXPECT_EQ(bar(0.53125, 4), "██▏ ");
  EXPECT_EQ(bar(7, 2), "██");
  EXPECT_EQ(bar(-1, 2), "  ");
  EXPECT_EQ(bar(0.5, 0), "");
}

TEST(Drawing, DrawsACurveFromMinimumToMaximum) {
  EXPECT_EQ(curve(std::vector<double>{0, 1, 3.5, 7, std::numeric_limits<double>::quiet_NaN()}),
            "▁▂▅█ ");
  EXPECT_EQ(curve(std::vector<double>{2, 2}), "▁▁");
}

TEST(Drawing, CutsByColumnsAndNotByBytes) {
  EXPECT_EQ(cut("▁▂▅", 2), "▁▂");
  EXPECT_EQ(left("▁", 3), "▁  ");
  EXPECT_EQ(right("abcd", 3), "abc");
  EXPECT_EQ(short_bytes(999), "999B");
  EXPECT_EQ(short_bytes(int64_t{3} << 29), "1.5G");
  EXPECT_EQ(short_bytes(int64_t{200} << 20), "200M");
}

}  // namespace
}  // namespace lockstep::monitor
