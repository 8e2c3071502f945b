// SPDX-License-Identifier: Apache-2.0
#include "training/data/glyphs.h"

#include <array>
#include <utility>

namespace lockstep::data {
namespace {

Stroke straight(std::vector<Point> points) {
  return {Stroke::Kind::Straight, std::move(points)};
}
Stroke curve(std::vector<Point> points) {
  return {Stroke::Kind::Curve, std::move(points)};
}
Stroke loop(std::vector<Point> points) {
  return {Stroke::Kind::Loop, std::move(points)};
}

using Styles = std::vector<Glyph>;

// By digit, each with the ways in which people write it: 7 with and without a bar, 4 open and
// closed.
std::array<Styles, 10> all_glyphs() {
  return {
      Styles{{loop({{50, 0}, {92, 12}, {98, 50}, {92, 88}, {50, 100}, {8, 88}, {2, 50}, {8, 12}})},
             {loop({{60, 0}, {96, 30}, {80, 90}, {40, 102}, {4, 70}, {20, 10}})}},
      Styles{{straight({{50, 2}, {50, 98}})},
             {straight({{28, 24}, {54, 2}, {52, 98}})},
             {straight({{30, 20}, {52, 2}, {52, 98}}), straight({{26, 98}, {78, 98}})}},
      Styles{{curve({{10, 26}, {22, 0}, {74, -2}, {96, 26}, {74, 54}, {38, 74}, {8, 98}}),
              straight({{8, 98}, {94, 98}})},
             {curve({{8, 18}, {48, -6}, {94, 14}, {84, 50}, {10, 94}}),
              curve({{10, 94}, {36, 84}, {66, 98}, {98, 92}})}},
      Styles{{curve({{12, 12}, {46, -4}, {90, 8}, {84, 42}, {42, 48}}),
              curve({{42, 48}, {94, 52}, {96, 88}, {50, 106}, {8, 86}})},
             {straight({{12, 2}, {86, 2}, {44, 42}}),
              curve({{44, 42}, {96, 46}, {94, 94}, {46, 104}, {8, 88}})}},
      Styles{{straight({{66, 98}, {66, 2}, {6, 68}, {96, 68}})},
             {straight({{16, 2}, {10, 54}, {90, 54}}), straight({{78, 2}, {74, 98}})}},
      Styles{{straight({{88, 2}, {22, 2}, {16, 46}}),
              curve({{16, 46}, {52, 30}, {98, 46}, {96, 90}, {48, 106}, {8, 88}})},
             {straight({{86, 4}, {26, 4}}),
              curve({{26, 4}, {18, 46}, {74, 34}, {100, 72}, {64, 106}, {10, 92}})}},
      Styles{
          {curve({{80, 4},
                  {34, 10},
                  {4, 56},
                  {14, 98},
                  {58, 104},
                  {94, 84},
                  {84, 50},
                  {42, 46},
                  {12, 70}})},
          {curve({{60, 0}, {18, 44}, {4, 82}, {36, 106}, {84, 98}, {90, 60}, {48, 50}, {12, 74}})}},
      Styles{{straight({{8, 4}, {92, 4}, {38, 98}})},
             {straight({{8, 4}, {92, 4}, {38, 98}}), straight({{30, 52}, {82, 52}})},
             {straight({{10, 8}, {90, 4}}), curve({{90, 4}, {56, 44}, {46, 98}})}},
      Styles{{loop({{50, 0}, {86, 8}, {84, 40}, {50, 48}, {16, 40}, {14, 8}}),
              loop({{50, 48}, {92, 56}, {94, 90}, {50, 102}, {6, 90}, {8, 56}})},
             {loop({{88, 10},
                    {44, -6},
                    {10, 18},
                    {34, 42},
                    {78, 60},
                    {92, 86},
                    {50, 106},
                    {8, 86},
                    {22, 60},
                    {66, 42}})}},
      Styles{{loop({{52, 0}, {92, 10}, {90, 46}, {50, 56}, {10, 42}, {12, 10}}),
              straight({{90, 24}, {82, 98}})},
             {loop({{52, 0}, {92, 10}, {90, 46}, {50, 56}, {10, 42}, {12, 10}}),
              curve({{90, 26}, {92, 78}, {60, 104}, {20, 92}})}},
  };
}

}  // namespace

std::span<const Glyph> glyphs(uint64_t digit) {
  static const std::array<Styles, 10> kGlyphs = all_glyphs();
  return kGlyphs.at(digit);
}

}  // namespace lockstep::data
