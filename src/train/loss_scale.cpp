// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <sstream>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

constexpr double kFirst = 65536;
constexpr double kFloor = 1;
constexpr int64_t kGoodSteps = 2000;
// One bad batch does not end a training; this many in a row are no accident.
constexpr int64_t kMostAtFloor = 4;
constexpr int64_t kMostFixed = 20;

}  // namespace

LossScaler::LossScaler(const std::string& text, const std::string& precision) {
  if (text == "none" || (text.empty() && precision != "fp16")) {
    return;
  }
  is_dynamic_ = text.empty() || text == "dynamic";
  scale_ = kFirst;
  if (is_dynamic_) {
    return;
  }
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, scale_);
  if (fault != std::errc() || stop != end || !std::isfinite(scale_) || scale_ <= 0) {
    throw Error(ExitCode::Usage, fmt::format("cannot use --loss-scale '{}'", text))
        .fact("there are", "none, dynamic, or a number above 0")
        .hint("--loss-scale dynamic");
  }
}

void LossScaler::after_step(int64_t step, bool applied) {
  if (!is_on()) {
    return;
  }
  if (applied) {
    overflows_ = 0;
    if (is_dynamic_ && ++good_steps_ == kGoodSteps) {
      scale_ *= 2;
      good_steps_ = 0;
    }
    return;
  }
  ++skipped_;
  good_steps_ = 0;
  if (is_dynamic_ && scale_ > kFloor) {
    scale_ = std::max(kFloor, scale_ / 2);
    return;
  }
  if (++overflows_ < (is_dynamic_ ? kMostAtFloor : kMostFixed)) {
    return;
  }
  if (is_dynamic_) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot go on: the loss scale fell to {} and gradients still overflow "
                            "(step {})",
                            scale_,
                            step))
        .fact("steps left out",
              fmt::format("{}, the last {} in a row at {}", skipped_, overflows_, scale_))
        .hint("--precision bf16, a smaller --lr, or --clip 1");
  }
  throw Error(
      ExitCode::Usage,
      fmt::format(
          "cannot go on: gradients overflow at the fixed loss scale {} (step {})", scale_, step))
      .fact("asked", fmt::format("--loss-scale {}", scale_))
      .fact("steps left out", fmt::format("{}, the last {} in a row", skipped_, overflows_))
      .hint("--loss-scale dynamic");
}

std::string LossScaler::state() const {
  return is_on() ? fmt::format("{} {} {} {}", scale_, good_steps_, overflows_, skipped_) : "";
}

// A fixed scale is what the user types now; a dynamic one goes on.
void LossScaler::restore(const std::string& state) {
  if (!is_on() || state.empty()) {
    return;
  }
  std::istringstream words(state);
  double scale = scale_;
  words >> scale >> good_steps_ >> overflows_ >> skipped_;
  if (!words) {
    throw Error(ExitCode::Io, "cannot resume: the checkpoint's loss scale makes no sense")
        .fact("found", state, "checkpoint");
  }
  scale_ = is_dynamic_ ? scale : scale_;
}

}  // namespace lockstep::train
