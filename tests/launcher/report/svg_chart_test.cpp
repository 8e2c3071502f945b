// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/svg_chart.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/report/chart_axis.h"
#include "launcher/report/markup.h"

namespace lockstep::report {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

size_t count_of(const std::string& text, const std::string& piece) {
  size_t count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Axis, HasRoundTicksAroundAllValues) {
  const Axis axis = make_axis(std::vector<double>{0.13, NAN, 0.61}, false);

  EXPECT_THAT(axis.ticks,
              ElementsAre(DoubleEq(0.1),
                          DoubleEq(0.2),
                          DoubleEq(0.3),
                          DoubleEq(0.4),
                          DoubleEq(0.5),
                          DoubleEq(0.6),
                          DoubleEq(0.7)));
  EXPECT_DOUBLE_EQ(axis.share_of(0.4), 0.5);
}

TEST(Axis, CountsByPowersOfTwoWhereItIsLogarithmic) {
  const Axis axis = make_axis(std::vector<double>{1, 3, 8}, true);

  EXPECT_THAT(axis.ticks, ElementsAre(1, 2, 4, 8));
  EXPECT_DOUBLE_EQ(axis.share_of(2), 1.0 / 3);
  EXPECT_TRUE(std::isnan(axis.share_of(0)));
}

TEST(Axis, HasDecadesForSmallValues) {
  const Axis axis = make_axis(std::vector<double>{0.002, 0.7, -1}, true);

  EXPECT_DOUBLE_EQ(axis.low, 0.001);
  EXPECT_DOUBLE_EQ(axis.high, 1);
  EXPECT_EQ(axis.ticks.size(), 10);
}

TEST(Axis, HasRoomAroundOneValueAndWithoutAny) {
  for (const bool is_log : {false, true}) {
    for (const std::vector<double>& values :
         {std::vector<double>{}, {NAN}, {0}, {7}, {-3}, {1e300}}) {
      const Axis axis = make_axis(values, is_log);

      EXPECT_LT(axis.low, axis.high);
      EXPECT_GE(axis.ticks.size(), 2);
    }
  }
}

TEST(TickText, IsShort) {
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(3 * 0.1), "0.3");
  EXPECT_EQ(tick_text(-2500), "-2500");
  EXPECT_EQ(tick_text(25000), "25k");
  EXPECT_EQ(tick_text(1.2e6), "1.2M");
}

TEST(Markup, HoldsNothingThatXmlCouldNot) {
  EXPECT_EQ(escape_markup("a<b> & \"c\" 'd'\x01\x1b\n"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\n");
}

TEST(Chart, PutsPointsWhereTheAxesSay) {
  const std::string svg = draw_svg(
      {.title = "t", .lines = {{.name = "ddp", .points = {{0, 0}, {10, 5}}, .has_dots = true}}});

  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("<path class=\"line stroke0\" d=\"M74.0 340.0L740.0 40.0\"/>"));
  EXPECT_THAT(svg, HasSubstr("<title>ddp: 10, 5</title>"));
  EXPECT_EQ(count_of(svg, "<circle"), 2);
}

TEST(Chart, BeginsAtZeroWhereAsked) {
  Chart chart{.lines = {{.points = {{0, 6}, {10, 10}}}}};
  EXPECT_THAT(draw_svg(chart), HasSubstr("M74.0 340.0L740.0 40.0"));

  chart.has_zero = true;

  EXPECT_THAT(draw_svg(chart), HasSubstr("M74.0 160.0L740.0 40.0"));
}

TEST(Chart, LeavesAGapWhereThereIsNoNumber) {
  const std::string svg =
      draw_svg({.lines = {{.name = "loss", .points = {{0, 1}, {1, 2}, {2, NAN}, {3, 1}, {4, 2}}}}});

  EXPECT_EQ(count_of(svg, "M74.0"), 2);  // the line, and the sample in the legend
  EXPECT_THAT(svg, HasSubstr("L240.5 40.0M573.5 340.0L740.0 40.0"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(count_of(svg, "<circle"), 0);
}

TEST(Chart, ShowsAPointBetweenGapsAsADot) {
  const std::string svg =
      draw_svg({.lines = {{.points = {{0, 1}, {1, NAN}, {2, 3}, {3, NAN}, {4, 1}, {5, 2}}}}});

  EXPECT_EQ(count_of(svg, "<circle"), 2);
}

TEST(Chart, LeavesOutWhatALogarithmCannotShow) {
  const std::string svg = draw_svg(
      {.lines = {{.points = {{0, 5}, {1, 1}, {2, 4}}, .has_dots = true}}, .is_x_log = true});

  EXPECT_EQ(count_of(svg, "<circle"), 2);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Chart, NamesEachLineInItsColourAndStyle) {
  const std::string svg =
      draw_svg({.lines = {{.name = "a<b", .points = {{0, 1}, {1, 2}}, .colour = 3},
                          {.name = "model", .points = {{0, 1}, {1, 2}}, .is_dashed = true}}});

  EXPECT_THAT(svg, HasSubstr(">a&lt;b</text>"));
  EXPECT_EQ(count_of(svg, "class=\"line stroke3\""), 2);
  EXPECT_EQ(count_of(svg, "class=\"line stroke1 dashed\""), 2);
}

TEST(Chart, GrowsWithItsLegend) {
  const auto height_with = [](size_t lines) {
    const std::string svg = draw_svg(
        {.lines = {lines, {.name = "a long name of a strategy", .points = {{0, 1}, {1, 2}}}}});
    return std::stoi(svg.substr(svg.find(" height=\"") + 9));
  };

  EXPECT_EQ(height_with(3), height_with(1) + 20);
  EXPECT_EQ(height_with(5), height_with(1) + 40);
}

TEST(Chart, SaysThatThereIsNothing) {
  EXPECT_THAT(draw_svg({.title = "loss"}), HasSubstr(">no data</text>"));
  EXPECT_THAT(draw_svg({.lines = {{.points = {{1, NAN}}}}}), HasSubstr(">no data</text>"));
}

}  // namespace
}  // namespace lockstep::report
