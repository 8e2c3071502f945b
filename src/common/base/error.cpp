// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep {

Error::Error(ExitCode code, std::string_view sentence)
    : code_(code), sentence_(sentence), text_(sentence) {}

Error& Error::fact(std::string_view label, std::string_view value, std::string_view source) & {
  lines_.push_back({std::string(label),
                    source.empty() ? std::string(value) : fmt::format("{}  ({})", value, source)});
  render();
  return *this;
}

Error&& Error::fact(std::string_view label, std::string_view value, std::string_view source) && {
  return std::move(fact(label, value, source));
}

Error& Error::hint(std::string_view text) & {
  lines_.push_back({"try", std::string(text)});
  render();
  return *this;
}

Error&& Error::hint(std::string_view text) && {
  return std::move(hint(text));
}

// Rebuilt after each line, so that what() is complete at any time. The labels form one column:
//
//   cannot find the program 'srun'
//     searched: /usr/bin:/bin  (PATH)
//     try:      module load slurm
void Error::render() {
  size_t width = 0;
  for (const Line& line : lines_) {
    width = std::max(width, line.label.size() + 1);
  }
  text_ = sentence_;
  for (const Line& line : lines_) {
    text_ += fmt::format("\n  {:<{}} {}", line.label + ":", width, line.text);
  }
}

}  // namespace lockstep
