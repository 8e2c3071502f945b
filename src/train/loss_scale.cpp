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

// One bad batch does not end a training; this many in a row are no accident.
constexpr int64_t kMostAtFloor = 4;
constexpr int64_t kMostFixed = 20;

}  // namespace

LossScaler::LossScaler(const std::string& text,
                       const std::string& precision,
                       const LossScaling& scaling)
    : scaling_(scaling), patience_(scaling.hysteresis) {
  if (text == "none" || (text.empty() && precision != "fp16")) {
    return;
  }
  is_dynamic_ = text.empty() || text == "dynamic";
  scale_ = scaling.first;
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
    const bool doubles = is_dynamic_ && ++good_steps_ == scaling_.good_steps;
    if (doubles) {
      scale_ *= 2;
      good_steps_ = 0;
    }
    if (doubles || scaling_.refills_hysteresis) {
      patience_ = scaling_.hysteresis;
    }
    return;
  }
  ++skipped_;
  good_steps_ = 0;
  if (is_dynamic_ && patience_ > 1) {
    --patience_;
    return;
  }
  if (is_dynamic_ && scale_ > scaling_.least) {
    scale_ = std::max(scaling_.least, scale_ / 2);
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
  if (!is_on()) {
    return "";
  }
  const std::string words = fmt::format("{} {} {} {}", scale_, good_steps_, overflows_, skipped_);
  return scaling_.hysteresis > 1 ? fmt::format("{} {}", words, patience_) : words;
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
  // Without hysteresis there is no more.
  if (int64_t patience = 0; words >> patience) {
    patience_ = std::clamp<int64_t>(patience, 1, scaling_.hysteresis);
  }
  scale_ = is_dynamic_ ? scale : scale_;
}

}  // namespace lockstep::train
