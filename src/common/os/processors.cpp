// SPDX-License-Identifier: Apache-2.0
#include "common/os/processors.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace lockstep::os {
namespace {

constexpr size_t kBits = std::numeric_limits<unsigned long>::digits;

// One bit per processor. Uses the system call, because the CPU sets of the C library have a fixed
// size. Empty if the call fails.
std::vector<unsigned long> read_mask() {
  constexpr size_t kMaxProcessors = 1 << 16;
  // The kernel rejects a mask that is smaller than its own: double the size until it fits.
  for (size_t count = 1024; count <= kMaxProcessors; count *= 2) {
    std::vector<unsigned long> words(count / kBits);
    if (::syscall(SYS_sched_getaffinity, 0, words.size() * sizeof(words[0]), words.data()) > 0) {
      return words;
    }
  }
  return {};
}

}  // namespace

int usable_processors() {
  const auto count = usable_processor_numbers().size();
  return count > 0 ? static_cast<int>(count)
                   : static_cast<int>(std::thread::hardware_concurrency());
}

std::vector<int> usable_processor_numbers() {
  const std::vector<unsigned long> words = read_mask();
  std::vector<int> numbers;
  for (size_t i = 0; i < words.size() * kBits; ++i) {
    if ((words[i / kBits] >> (i % kBits) & 1U) != 0) {
      numbers.push_back(static_cast<int>(i));
    }
  }
  return numbers;
}

// `<=` skips duplicates: they extend the range by nothing.
std::string format_processors(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    while (last + 1 < numbers.size() && numbers[last + 1] <= numbers[last] + 1) {
      ++last;
    }
    text += text.empty() ? "" : ",";
    text += numbers[first] == numbers[last] ? std::to_string(numbers[first])
                                            : fmt::format("{}-{}", numbers[first], numbers[last]);
  }
  return text;
}

// The kernel pads a shorter mask with zeros and ignores bits of processors that do not exist.
ProcessorMask::ProcessorMask(const std::vector<int>& numbers) {
  for (const int number : numbers) {
    const auto bit = static_cast<size_t>(number);
    words_.resize(std::max(words_.size(), bit / kBits + 1));
    words_[bit / kBits] |= 1UL << bit % kBits;
  }
}

bool ProcessorMask::apply() const {
  return ::syscall(
             SYS_sched_setaffinity, 0, words_.size() * sizeof(unsigned long), words_.data()) == 0;
}

}  // namespace lockstep::os
