// SPDX-License-Identifier: Apache-2.0
//
// What happens where there is too little: memory, threads.
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "image/in_order.h"
#include "lockstep/error.h"

namespace lockstep::image {
namespace {

uint64_t address_space_bytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Sanitizers have reserved more than any limit, and die of one.
bool can_be_limited() {
  return address_space_bytes() < uint64_t{1} << 40;
}

void allow_more(uint64_t bytes) {
  const rlim_t most = address_space_bytes() + bytes;
  const rlimit limit = {.rlim_cur = most, .rlim_max = most};
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

}  // namespace
}  // namespace lockstep::image
