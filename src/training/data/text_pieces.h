// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace lockstep::data {

// Splits text into pieces with the pattern of GPT-2. No token spans two pieces.
class Cutter {
 public:
  Cutter();
  ~Cutter();
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  // All pieces of `text` in order, without gaps. Throws an Error if the text is not valid UTF-8.
  void cut(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace lockstep::data
