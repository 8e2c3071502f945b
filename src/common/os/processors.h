// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::os {

// Number of logical processors in the affinity mask of this process.
int usable_processors();

// Their numbers in ascending order; none if the kernel does not report them.
std::vector<int> usable_processor_numbers();

// Formats numbers as "0-3,8".
std::string format_processors(std::vector<int> numbers);

// A set of processors in the format of the kernel, prepared before fork.
class ProcessorMask {
 public:
  explicit ProcessorMask(const std::vector<int>& numbers);

  bool is_empty() const { return words_.empty(); }

  // Binds this thread and its future children to these processors. False, with errno, if none of
  // them can be used. Async-signal-safe.
  bool apply() const;

 private:
  std::vector<unsigned long> words_;
};

}  // namespace lockstep::os
