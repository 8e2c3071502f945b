// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::os {

// Logical processors in this process's affinity mask.
int usable_processors();

// Their numbers, upwards; none when the kernel does not tell.
std::vector<int> usable_processor_numbers();

// "0-3,8": what people write.
std::string format_processors(std::vector<int> numbers);

// A set of processors in the kernel's form, made before it is needed.
class ProcessorMask {
 public:
  explicit ProcessorMask(const std::vector<int>& numbers);

  bool is_empty() const { return words_.empty(); }

  // Binds this thread, and all that it will start, to these processors. False, with errno, when
  // none of them may be used. Async-signal-safe.
  bool apply() const;

 private:
  std::vector<unsigned long> words_;
};

}  // namespace lockstep::os
