// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace lockstep::data {

// Cuts text where GPT-2 does: no token reaches from one piece into the next.
class Cutter {
 public:
  Cutter();
  ~Cutter();
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  // All pieces of `text` in order, without gap. Throws an Error for what is not UTF-8.
  void cut(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace lockstep::data
