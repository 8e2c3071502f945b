// SPDX-License-Identifier: Apache-2.0
#include "common/image/sample.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "common/image/jpegs.h"
#include "training/data/message_of.h"

namespace lockstep::image {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Recipe middle(int size, int resize) {
  return {.size = size, .augments = false, .resize = resize};
}

Recipe random_part(int size) {
  return {.size = size, .augments = true};
}

Picture make(const Recipe& recipe, const File& file, uint64_t key = 0) {
  Picture picture{recipe.size, recipe.size, {}};
  picture.pixels.resize(static_cast<size_t>(recipe.size * recipe.size * 3));
  Maker(recipe).make(file, key, picture.pixels.data());
  return picture;
}

std::string reason(const File& file, const Recipe& recipe = middle(32, 32), uint64_t key = 0) {
  try {
    make(recipe, file, key);
  } catch (const Corrupt& corrupt) {
    return corrupt.what();
  }
  return "nothing was thrown";
}

// Smooth waves, so that the loss of JPEG is small.
int wave(int x, int y, int channel) {
  return static_cast<int>(128 + 60 * std::sin(x * 0.07 + channel) +
                          50 * std::cos(y * 0.05 - channel));
}

// Four quarters in red, green, blue and white, in the upright image.
int quarter(int width, int height, int x, int y, int channel) {
  const int colour = (x >= width / 2 ? 1 : 0) + (y >= height / 2 ? 2 : 0);
  return colour == 3 || colour == channel ? 255 : 0;
}

std::string colours(const Picture& picture) {
  std::string found;
  for (const int y : {picture.height / 4, picture.height * 3 / 4}) {
    for (const int x : {picture.width / 4, picture.width * 3 / 4}) {
      const bool red = picture.at(x, y, 0) > 128;
      const bool green = picture.at(x, y, 1) > 128;
      const bool blue = picture.at(x, y, 2) > 128;
      found += red && green && blue ? 'w' : red ? 'r' : green ? 'g' : blue ? 'b' : '-';
    }
  }
  return found;
}

// The filter in double over an entire image, like resize() with a box in Pillow.
double resized(const Picture& picture, const Crop& crop, int size, int x, int y, int channel) {
  const double x_scale = (crop.box.right - crop.box.left) / size;
  const double y_scale = (crop.box.bottom - crop.box.top) / size;
  const double x_reach = std::max(x_scale, 1.0);
  const double y_reach = std::max(y_scale, 1.0);
  const double x_centre = crop.box.left + (x + 0.5) * x_scale;
  const double y_centre = crop.box.top + (y + 0.5) * y_scale;
  const auto begin = [](double limit, double from) {
    return static_cast<int>(std::max(limit, std::floor(from)));
  };
  double sum = 0;
  double total = 0;
  for (int v = begin(crop.limits.top, y_centre - y_reach);
       v < std::min(crop.limits.bottom, y_centre + y_reach);
       ++v) {
    for (int u = begin(crop.limits.left, x_centre - x_reach);
         u < std::min(crop.limits.right, x_centre + x_reach);
         ++u) {
      const double weight = std::max(0.0, 1 - std::abs(u + 0.5 - x_centre) / x_reach) *
                            std::max(0.0, 1 - std::abs(v + 0.5 - y_centre) / y_reach);
      sum += weight * picture.at(u, v, channel);
      total += weight;
    }
  }
  return sum / total;
}

void expect_near(const Picture& sample, const Picture& whole, const Crop& crop, double tolerance) {
  const int last = sample.width - 1;
  double worst = 0;
  for (int y = 0; y < sample.height; y += 3) {
    for (int x = 0; x < sample.width; x += 3) {
      for (int c = 0; c < 3; ++c) {
        const double expected = resized(whole, crop, sample.width, x, y, c);
        const int found = sample.at(crop.is_mirrored ? last - x : x, y, c);
        worst = std::max(worst, std::abs(found - expected));
      }
    }
  }
  EXPECT_LE(worst, tolerance);
}

TEST(Maker, TakesTheMiddleAsResizeAndCenterCropDo) {
  const File file = encode({.width = 150, .height = 90, .pixel = wave});

  const Picture sample = make(middle(56, 64), file);

  expect_near(sample, decode(file), choose_middle(middle(56, 64), 150, 90), 1);
}

TEST(Maker, TakesTheRandomPartThatTheKeySays) {
  const File file = encode({.width = 150, .height = 110, .pixel = wave});
  const Recipe recipe = random_part(60);
  for (uint64_t key = 0; key < 10; ++key) {
    SCOPED_TRACE(key);
    expect_near(make(recipe, file, key), decode(file), choose_random(recipe, 150, 110, key), 1);
  }
}

// At smaller sizes libjpeg removes fine detail with another filter than the triangle.
TEST(Maker, GivesNearlyTheSameFromASmallerDecoding) {
  const File file = encode({.width = 640, .height = 512, .pixel = wave});
  for (const int size : {16, 32, 64, 128}) {
    SCOPED_TRACE(size);
    expect_near(make(middle(size, size), file),
                decode(file),
                choose_middle(middle(size, size), 640, 512),
                4);
  }
}

TEST(Maker, CutsOutOfEverySubsamplingTheSame) {
  for (const auto& [horizontal, vertical] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
    for (const bool is_progressive : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x {}, progressive {}", horizontal, vertical, is_progressive));
      const File file = encode({.width = 203,
                                .height = 157,
                                .is_progressive = is_progressive,
                                .horizontal = horizontal,
                                .vertical = vertical,
                                .restarts = 2,
                                .pixel = wave});
      const Picture whole = decode(file);
      for (uint64_t key = 0; key < 6; ++key) {
        const Crop crop = choose_random(random_part(110), 203, 157, key);
        expect_near(make(random_part(110), file, key), whole, crop, 1);
      }
    }
  }
}

TEST(Maker, GivesTheSameSampleForTheSameKeyAlways) {
  const File file = encode({.width = 100, .height = 100, .pixel = wave});
  Maker maker(random_part(24));
  std::vector<uint8_t> first(24 * 24 * 3);
  std::vector<uint8_t> other(24 * 24 * 3);
  std::vector<uint8_t> again(24 * 24 * 3);

  maker.make(file, 5, first.data());
  maker.make(file, 6, other.data());
  maker.make(file, 5, again.data());

  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Maker, TurnsEveryOrientationUpright) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Orientation turned = orientation_of(orientation);
    const int width = turned.swaps ? 64 : 96;  // stored; 96 x 64 upright
    const int height = turned.swaps ? 96 : 64;
    Jpeg jpeg = {.width = width,
                 .height = height,
                 .horizontal = 1,
                 .vertical = 1,
                 .orientation = orientation,
                 .is_big_endian = orientation % 2 == 0};
    jpeg.pixel = [&](int x, int y, int channel) {
      int right = turned.swaps ? y : x;
      int down = turned.swaps ? x : y;
      right = turned.flips_x ? 95 - right : right;
      down = turned.flips_y ? 63 - down : down;
      return quarter(96, 64, right, down, channel);
    };
    SCOPED_TRACE(orientation);

    const File file = encode(jpeg);

    EXPECT_EQ(colours(make(middle(32, 32), file)), "rgbw");
    // The crop is chosen in the upright image, so all eight are equal.
    Jpeg upright = {.width = 96, .height = 64, .horizontal = 1, .vertical = 1};
    upright.pixel = [](int x, int y, int c) {
      return quarter(96, 64, x, y, c);
    };
    const Picture expected = make(random_part(40), encode(upright), 3);
    const Picture found = make(random_part(40), file, 3);
    for (size_t i = 0; i < expected.pixels.size(); ++i) {
      ASSERT_NEAR(found.pixels[i], expected.pixels[i], 24) << i;
    }
  }
}

TEST(Maker, IgnoresAnOrientationThatCannotBe) {
  Jpeg jpeg = {.orientation = 9};
  jpeg.pixel = [](int x, int y, int c) {
    return quarter(64, 48, x, y, c);
  };

  EXPECT_EQ(colours(make(middle(32, 32), encode(jpeg))), "rgbw");
}

TEST(Maker, MakesGreyInkAndProgressiveFilesRgb) {
  Jpeg grey = {.channels = 1};
  grey.pixel = [](int, int, int) {
    return 77;
  };
  EXPECT_THAT(make(middle(32, 32), encode(grey)).pixels, Each(77));

  // Full cyan and half black: cyan removes red, black halves green and blue.
  const auto ink = [](int c) {
    return c == 0 ? 255 : c == 3 ? 128 : 0;
  };
  Jpeg plain = {.channels = 4, .has_adobe = false};
  plain.pixel = [&](int, int, int c) {
    return ink(c);
  };
  Jpeg adobe = {.channels = 4};
  adobe.pixel = [&](int, int, int c) {
    return 255 - ink(c);
  };
  Jpeg ycck = adobe;
  ycck.is_ycck = true;
  for (const Jpeg& jpeg : {plain, adobe, ycck}) {
    const Picture picture = make(middle(32, 32), encode(jpeg));
    EXPECT_NEAR(picture.at(9, 9, 0), 0, 3);
    EXPECT_NEAR(picture.at(9, 9, 1), 127, 3);
    EXPECT_NEAR(picture.at(9, 9, 2), 127, 3);
  }

  Jpeg progressive = {.is_progressive = true};
  progressive.pixel = [](int x, int y, int c) {
    return quarter(64, 48, x, y, c);
  };
  EXPECT_EQ(colours(make(middle(32, 32), encode(progressive))), "rgbw");
}

TEST(Maker, ShrinksTwentyThousandPixels) {
  Jpeg jpeg = {.width = 20000, .height = 20000, .quality = 50, .is_striped = true};
  jpeg.pixel = [](int, int, int) {
    return 90;
  };
  const File file = encode(jpeg);

  EXPECT_THAT(make(middle(224, 256), file).pixels, Each(90));
  EXPECT_THAT(make(random_part(224), file, 11).pixels, Each(90));
}

TEST(Maker, EnlargesASinglePixel) {
  Jpeg jpeg = {.width = 1, .height = 1};
  jpeg.pixel = [](int, int, int) {
    return 200;
  };
  EXPECT_THAT(make(middle(32, 36), encode(jpeg)).pixels, Each(200));
  EXPECT_THAT(make(random_part(32), encode(jpeg)).pixels, Each(200));
}

TEST(Maker, SaysWhatIsNoJpeg) {
  EXPECT_EQ(reason({}), "is empty");
  EXPECT_EQ(reason(bytes_of("\x89PNG\r\n\x1a\n....")),
            "is a PNG file, not a JPEG, like n02105855_2933.JPEG of ImageNet (--corrupt skip "
            "trains without it)");
  EXPECT_EQ(reason(bytes_of("GIF89a....")), "is a GIF file, not a JPEG");
  EXPECT_EQ(reason(bytes_of("BM........")), "is a BMP file, not a JPEG");
  EXPECT_EQ(reason(bytes_of("RIFF1234WEBPVP8 ")), "is a WebP file, not a JPEG");
  EXPECT_EQ(reason(bytes_of(std::string("II*\0....", 8))), "is a TIFF file, not a JPEG");
  EXPECT_EQ(reason(bytes_of("<!DOCTYPE html>")), "is a page of HTML or XML, not a JPEG");
  EXPECT_EQ(reason(bytes_of("nothing")), "is not a JPEG file");
  EXPECT_EQ(reason(bytes_of("\xff\xd8")), "is not a JPEG file");
}

TEST(Maker, SeesAFileThatEndsEarlyWhereverItIsCut) {
  for (const bool is_progressive : {false, true}) {
    const File whole =
        encode({.width = 80, .height = 80, .is_progressive = is_progressive, .pixel = wave});
    for (size_t size = 3; size + 1 < whole.size(); size += 7) {
      const File cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      for (uint64_t key = 0; key < 3; ++key) {
        SCOPED_TRACE(fmt::format("{} of {} bytes, key {}", size, whole.size(), key));
        EXPECT_EQ(reason(cut, middle(16, 80)), "ends early");
        EXPECT_THROW(make(random_part(16), cut, key), Corrupt);
      }
    }
  }
}

// Repeats the first scan that is not the one of the DC coefficients. It does not refine an earlier
// one, so that the image stays the same.
TEST(Maker, RefusesAFileWithMoreScansThanAnyEncoderWrites) {
  const File image = encode({.is_progressive = true, .pixel = wave});
  const File mark = bytes_of("\xff\xda");
  const auto dc = std::search(image.begin(), image.end(), mark.begin(), mark.end());
  const auto scan = std::search(dc + 2, image.end(), mark.begin(), mark.end());
  ASSERT_NE(scan, image.end());
  // Ends at the next marker; 0xff in the data is followed by 0.
  auto end = scan + 2;
  while (*end != std::byte{0xff} || end[1] == std::byte{0}) {
    ++end;
  }
  const auto with_scans = [&](int repeats) {
    File file(image.begin(), end);
    for (int i = 0; i < repeats; ++i) {
      file.insert(file.end(), scan, end);
    }
    file.insert(file.end(), end, image.end());
    return file;
  };

  EXPECT_EQ(reason(with_scans(20)), "nothing was thrown");
  EXPECT_EQ(reason(with_scans(200)), "cannot be decoded: it has more than 100 scans");
}

// libjpeg would invent the missing pixels.
TEST(Maker, ShowsNothingThatTheFileDoesNotHaveThoughItHasAnEnd) {
  for (const int restarts : {0, 1}) {
    const File whole = encode({.width = 160, .height = 160, .restarts = restarts, .pixel = wave});
    int shown = 0;
    for (size_t left_out = 4; left_out < 1500; left_out += 61) {
      const File cut = without_last(whole, left_out);
      SCOPED_TRACE(fmt::format("{} bytes left out of {}", left_out, whole.size()));
      EXPECT_EQ(reason(cut, middle(160, 160)), "ends early");
      for (uint64_t key = 0; key < 4; ++key) {
        if (reason(cut, random_part(16), key) == "nothing was thrown") {
          EXPECT_EQ(make(random_part(16), cut, key).pixels,
                    make(random_part(16), whole, key).pixels);
          ++shown;
        }
      }
    }
    EXPECT_GT(shown, 5);  // crops before the truncation
  }
  const File progressive = encode({.is_progressive = true, .pixel = wave});
  EXPECT_EQ(reason(without_last(progressive, 20)), "ends early");
}

TEST(Maker, GoesOnAfterACorruptFile) {
  const File good = encode({.pixel = wave});
  const File cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  Maker maker(middle(32, 32));
  std::vector<uint8_t> before(32 * 32 * 3);
  std::vector<uint8_t> after(32 * 32 * 3);

  maker.make(good, 0, before.data());
  EXPECT_THROW(maker.make(cut, 0, after.data()), Corrupt);
  EXPECT_THROW(maker.make({}, 0, after.data()), Corrupt);
  maker.make(good, 0, after.data());

  EXPECT_EQ(before, after);
}

TEST(Maker, ToleratesBytesBetweenMarkersAndAfterTheEnd) {
  File file = encode({.pixel = wave});
  const File padding = bytes_of("rubbish");
  file.insert(file.end(), padding.begin(), padding.end());

  EXPECT_EQ(reason(file), "nothing was thrown");
}

TEST(Maker, RefusesAHeaderThatPromisesTooMuch) {
  const File plain = encode({.pixel = wave});

  EXPECT_EQ(reason(with_size(plain, 50000, 40000)),
            "claims 50000 x 40000 pixels, more than 1,000,000,000");
  EXPECT_THAT(reason(with_size(plain, 65535, 10)), HasSubstr("Maximum supported image dimension"));
  EXPECT_THAT(reason(with_size(plain, 0, 10)), HasSubstr("Empty JPEG image"));
  EXPECT_THAT(reason(with_size(
                  encode({.is_progressive = true, .horizontal = 1, .vertical = 1}), 30000, 30000)),
              StartsWith("is progressive and needs 5.0 GiB of memory, more than 512.0 MiB"));
}

TEST(Maker, RefusesARecipeWithoutSense) {
  EXPECT_EQ(message_of([] { Maker(middle(224, 200)); }),
            "64 cannot make samples: the crop is larger than the resized image\n"
            "  size:   224\n"
            "  resize: 200");
  EXPECT_EQ(message_of([] { Maker({.augments = true, .min_area = 0.5, .max_area = 0.1}); }),
            "64 cannot make samples: invalid area or ratio of random crops\n"
            "  area:  0.5 to 0.1\n"
            "  ratio: 0.75 to 1.3333333333333333");
}

TEST(Crop, IsOfTheAreaAndRatioAskedForAndMirroredHalfTheTime) {
  const Recipe recipe;
  int mirrored = 0;
  double area = 0;
  for (uint64_t key = 0; key < 2000; ++key) {
    const Crop crop = choose_random(recipe, 500, 375, key);
    const double width = crop.box.right - crop.box.left;
    const double height = crop.box.bottom - crop.box.top;
    EXPECT_GE(crop.box.left, 0);
    EXPECT_LE(crop.box.right, 500);
    EXPECT_LE(crop.box.bottom, 375);
    EXPECT_GT(width / height, 0.73);
    EXPECT_LT(width / height, 1.36);
    area += width * height / (500 * 375) / 2000;
    mirrored += crop.is_mirrored ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 1000, 100);
  EXPECT_NEAR(area, 0.43, 0.03);  // large crops do not fit as often
}

TEST(Crop, IsTheMiddleOfAnImageThatHasNoPartOfTheRatio) {
  const Crop crop = choose_random({.min_area = 0.9}, 1000, 20, 1);

  EXPECT_EQ(crop.box.right - crop.box.left, 27);
  EXPECT_EQ(crop.box.bottom - crop.box.top, 20);
  EXPECT_EQ(crop.box.left, 486);
}

// These values must never change, because a resumed run must get the same samples.
TEST(Crop, IsTheSameForAKeyOnEveryMachine) {
  const Crop crop = choose_random({}, 500, 375, 42);

  EXPECT_EQ(fmt::format("{} {} {} {} {}",
                        crop.box.left,
                        crop.box.top,
                        crop.box.right,
                        crop.box.bottom,
                        crop.is_mirrored),
            "206 16 462 352 true");
}

}  // namespace
}  // namespace lockstep::image
