// SPDX-License-Identifier: Apache-2.0
#include "common/image/drawn.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <set>
#include <string>

#include "common/base/text.h"
#include "common/image/check.h"
#include "common/os/files.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr Size kTiny = {.width = 64, .height = 64};

TEST(Draw, DependsOnItsArgumentsAlone) {
  const Drawing drawing = draw(3, 4, 1, kTiny);

  EXPECT_EQ(drawing.pixels, draw(3, 4, 1, kTiny).pixels);
  EXPECT_NE(drawing.pixels, draw(3, 5, 1, kTiny).pixels);
  EXPECT_NE(drawing.pixels, draw(4, 4, 1, kTiny).pixels);
  EXPECT_NE(drawing.pixels, draw(3, 4, 2, kTiny).pixels);
}

TEST(Draw, KnowsTwoHundredClassesByDifferentWords) {
  std::set<std::string> words;
  for (int i = 0; i < kMaxDrawnClasses; ++i) {
    words.insert(name_of_drawn(i).words);
  }

  EXPECT_EQ(words.size(), static_cast<size_t>(kMaxDrawnClasses));
  EXPECT_EQ(name_of_drawn(0).id, "n90000000");
  EXPECT_EQ(name_of_drawn(0).words, "plain red disc");
}

TEST(Drawn, IsTinyImagenetWithListsBoxesAndTestImages) {
  const os::TemporaryDirectory directory;
  const fs::path root = directory.path() / "tiny-imagenet-like";

  write_drawn(root,
              {.classes = 3, .per_class = 4, .val_per_class = 2, .threads = 2},
              [](int64_t, int64_t) {});

  const Sets sets = find_tiny_imagenet(directory.path());
  EXPECT_EQ(sets.train->size(), 12);
  EXPECT_EQ(sets.test->size(), 6);
  EXPECT_EQ(sets.test->label(4), 1);
  EXPECT_EQ(sets.train->classes()[2].words, name_of_drawn(2).words);
  EXPECT_THAT(check(*sets.train, 1, [](int64_t, int64_t) {}), IsEmpty());
  std::vector<std::byte> buffer;
  Renderer renderer;
  EXPECT_EQ(renderer.open(sets.train->read(0, buffer)), kTiny);
  EXPECT_THAT(split(os::read_file(root / "val/val_annotations.txt"), '\n')[0],
              MatchesRegex("val_0.JPEG\tn90000000\t[0-9]+\t[0-9]+\t[0-9]+\t[0-9]+"));
  EXPECT_THAT(split(os::read_file(root / "train/n90000001/n90000001_boxes.txt"), '\n')[3],
              MatchesRegex("n90000001_3.JPEG\t[0-9]+\t[0-9]+\t[0-9]+\t[0-9]+"));
  EXPECT_TRUE(fs::exists(root / "test/images/test_5.JPEG"));
  const auto entries = fs::directory_iterator(directory.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

}  // namespace
}  // namespace lockstep::image
