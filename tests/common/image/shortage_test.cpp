// SPDX-License-Identifier: Apache-2.0
//
// Behaviour with too little memory or too few threads.
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "common/base/random.h"
#include "common/image/in_order.h"
#include "common/image/jpeg_encoder.h"
#include "lockstep/error.h"

namespace lockstep::image {
namespace {

uint64_t address_space_bytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Sanitizers reserve a large address space and fail under a limit.
bool can_be_limited() {
  return address_space_bytes() < uint64_t{1} << 40;
}

void allow_more(uint64_t bytes) {
  const rlim_t maximum = address_space_bytes() + bytes;
  const rlimit limit = {.rlim_cur = maximum, .rlim_max = maximum};
  setrlimit(RLIMIT_AS, &limit);
}

TEST(InOrder, NamesItsThreads) {
  InOrder<std::string> names(20, 3, [](int64_t, int thread) {
    std::string name;
    std::getline(std::ifstream("/proc/thread-self/comm"), name);
    return name == fmt::format("image {}", thread) ? "" : name;
  });

  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(names.next(), "");
  }
}

TEST(InOrderDeathTest, SaysHowManyThreadsCouldBeStarted) {
  if (!can_be_limited()) {
    GTEST_SKIP() << "needs an address space that can be limited";
  }
  const auto start_too_many = [] {
    allow_more(uint64_t{256} << 20);
    try {
      const InOrder<int> numbers(1'000'000, 200, [](int64_t, int thread) { return thread; });
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(static_cast<int>(error.code()));
    }
    std::_Exit(0);
  };

  EXPECT_EXIT(start_too_many(),
              ::testing::ExitedWithCode(69),
              "cannot start 200 threads\n"
              "  started: [0-9]+\n"
              "  reason:  Resource temporarily unavailable\n"
              "  try:     --threads [0-9]+");
}

TEST(JpegEncoderDeathTest, GoesOnAfterThereWasNoMemoryAmidAnImage) {
  if (!can_be_limited()) {
    GTEST_SKIP() << "needs an address space that can be limited";
  }
  // Noise: a file of about 13 MB, after 27 MB of coefficients.
  constexpr Size kLarge = {.width = 3000, .height = 3000};
  std::vector<uint8_t> noise(size_t{3000} * 3000 * 3);
  Random random(1, 2);
  for (uint8_t& value : noise) {
    value = static_cast<uint8_t>(random.below(256));
  }
  const auto encode_two = [&] {
    JpegEncoder encoder;
    allow_more(uint64_t{37} << 20);
    try {
      encoder.encode(noise.data(), kLarge, 100);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
    }
    const auto small = encoder.encode(noise.data(), {.width = 30, .height = 20}, 90);
    std::_Exit(small.size() > 100 && small[0] == std::byte{0xff} ? 3 : 4);
  };

  EXPECT_EXIT(encode_two(),
              ::testing::ExitedWithCode(3),
              "cannot encode an image of 3000 x 3000 pixels\n"
              "  reason: Insufficient memory \\(case 10\\)  \\(libjpeg\\)");
}

}  // namespace
}  // namespace lockstep::image
